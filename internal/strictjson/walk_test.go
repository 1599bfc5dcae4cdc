package strictjson

import (
	"bytes"
	"testing"
)

// What Walk takes apart it takes apart as Object does.
func FuzzWalk(f *testing.F) {
	for _, s := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a" : "x\"y\\", "b":[1,{"c":"]}"}],"d\u0061":true ,"e":-1.5e3}`, `{"":null}`, "{\n\"a\"\t:\r\n[ ]\n,\"b\":{\"a\":{}}}",
		`{"\\":"\\\\\"","\"":"}"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var want []Member
		for m, err := range Object(b) {
			if err != nil {
				return
			}
			want = append(want, m)
		}
		i := 0
		for m := range Walk(b) {
			if i >= len(want) || m.Name != want[i].Name || m.Key != want[i].Key || m.Start != want[i].Start || m.End != want[i].End || !bytes.Equal(m.Value, want[i].Value) {
				t.Fatalf("member %d of %q is %+v, want one of %+v", i, b, m, want)
			}
			i++
		}
		if i != len(want) {
			t.Fatalf("%d members of %q, want %d", i, b, len(want))
		}
	})
}
