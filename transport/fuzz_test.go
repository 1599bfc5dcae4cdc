package transport

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// FuzzCall checks that whatever the params of a tools/call are, they are either
// refused or mean to the gate what a strict reader of JSON finds in them.
func FuzzCall(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","arguments":{"x":1.0}}`, `{"name":"a","arguments":null,"_meta":{"progressToken":1,"x/y":{}}}`,
		`{"name":"a","Arguments":{}}`, `{"name":"a","arguments":[]}`, `{"name":"a","name":"b"}`,
		`{"name":"a","inputResponses":{"approval":{"action":"accept"}},"requestState":"x"}`, `{"n\u0061me":"a"}`, `{`, ``, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := parseParams(raw)
		if err != nil || raw == nil {
			return
		}
		c, e := parseCall(p)
		if e != nil {
			if e.Code != jsonrpc.CodeInvalidParams {
				t.Fatalf("refused with %v", e)
			}
			return
		}
		var strict struct {
			Name string          `json:"name"`
			Args json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal(raw, &strict); err != nil {
			t.Fatalf("accepted what does not decode: %v", err)
		}
		if strict.Name != c.name || string(strict.Args) != string(c.args) && string(strict.Args) != "null" {
			t.Fatalf("name %q, arguments %s; want %q, %s", c.name, c.args, strict.Name, strict.Args)
		}
		if c.meta != nil && strictjson.Check(c.meta) != nil {
			t.Fatalf("_meta is not JSON: %s", c.meta)
		}
	})
}

// FuzzDispatch feeds lines to the whole stdio dispatcher: nothing may break it,
// and each line is answered at most once, with its own id.
func FuzzDispatch(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, callLine("2", "echo", `{}`),
		`{"jsonrpc":"2.0","id":"x","method":"server/discover","params":{` + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":"gate-1","result":{}}`,
		`[]`, `{}`, `x`,
	} {
		f.Add([]byte(seed))
	}
	s := New(&fakeGate{}, [32]byte{}, Options{})
	f.Fuzz(func(t *testing.T, line []byte) {
		w := new(lineSink)
		st := &stdio{c: s.newConn(stdioIdentity), w: jsonrpc.NewLineWriter(w), crew: newCrew()}
		st.c.handshake(terms{version: version2025})
		ctx, cancel := context.WithCancel(t.Context())
		st.take(ctx, t.Context(), line)
		st.drain(cancel, unwind)
		st.c.close()
		st.crew.end()
		if err := st.w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(w.written) == 0 {
			return
		}
		m, err := jsonrpc.Parse(w.written)
		if err != nil {
			t.Fatalf("answered with %q: %v", w.written, err)
		}
		if in, err := jsonrpc.Parse(line); err == nil && m.IsResponse() && string(m.ID) != string(in.ID) {
			t.Fatalf("answered %s to %s", m.ID, in.ID)
		}
	})
}

type lineSink struct{ written []byte }

func (l *lineSink) Write(b []byte) (int, error) {
	l.written = append(l.written, b...)
	return len(b), nil
}
