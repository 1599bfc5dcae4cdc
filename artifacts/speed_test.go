package artifacts

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// shapes are texts of a megabyte as servers really send them.
func shapes() map[string]string {
	numbered := func(line func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < 1<<20; i++ {
			b.WriteString(line(i))
		}
		return b.String()
	}
	return map[string]string{
		"prose": numbered(func(i int) string {
			return fmt.Sprintf("The quick brown fox no. %d jumps over the lazy dog, and says \"so what\"; it went on.\n", i)
		}),
		"paragraph": numbered(func(i int) string {
			return fmt.Sprintf("Chapter %d tells of a long way home, in one line without an end. ", i)
		}),
		"base64":  base64.StdEncoding.EncodeToString(noise(3 << 18)),
		"numbers": numbered(func(i int) string { return fmt.Sprintf("%d.%d\n", i*7919%1000003, i%97) }),
		"records": "[" + strings.TrimSuffix(numbered(func(i int) string {
			return fmt.Sprintf(`{"id":%d,"name":"Customer number %d","mail":"user%d@example.org","active":true},`, i, i, i)
		}), ",") + "]",
		"csv": numbered(func(i int) string { return fmt.Sprintf("%d,Customer %d,user%d@example.org,%d.5\n", i, i, i, i%100) }),
		"code": numbered(func(i int) string {
			return fmt.Sprintf("func step%d(in *input) error {\n\tif in == nil {\n\t\treturn errors.New(\"no input\")\n\t}\n\treturn in.next(%d)\n}\n\n", i, i)
		}),
		"log": numbered(func(i int) string {
			return fmt.Sprintf("2026-11-30T13:%02d:%02d.%03dZ info server: request %d done in %d ms\n", i/60%60, i%60, i%1000, i, i%17)
		}),
	}
}

func BenchmarkShapes(b *testing.B) {
	for name, text := range shapes() {
		result := textResult(text)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(result)))
			b.ReportAllocs()
			for b.Loop() {
				Inspect(result)
			}
		})
		b.Run(name+"-rest", func(b *testing.B) {
			b.SetBytes(int64(len(result)))
			b.ReportAllocs()
			for b.Loop() {
				InspectRest(result, rows)
			}
		})
	}
}
