package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
)

// upstream is the deterministic server behind everything that is measured. It
// finds what it needs in a line by searching for it, which is enough for what
// the client, the floor and the gate write, and costs next to nothing.
type upstream struct {
	list []byte // result of tools/list
	blob []byte // result of the last size of blob that was asked for
	size int
}

func newUpstream(tools int) *upstream {
	return &upstream{list: toolList(tools)}
}

// fillerText makes a definition about as long as the median of public servers'.
const fillerText = "Look up one record of the set and return its fields as text. The key is the one that a listing gave; " +
	"a key that is not known is answered with an error that names the nearest ones. Fields that were never set are left out, " +
	"and a record that was withdrawn is given with the day and the reason. Nothing is changed by looking, however often."

// toolList is the result of tools/list: echo, blob, and as many more as it
// takes. No definition is equal to another.
func toolList(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"tools":[`)
	b.WriteString(`{"name":"echo","description":"Return the text.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"annotations":{"readOnlyHint":true}},`)
	b.WriteString(`{"name":"blob","description":"Return so many bytes of text.","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer"}},"required":["bytes"]},"annotations":{"readOnlyHint":true}}`)
	for i := 2; i < n; i++ {
		fmt.Fprintf(&b, `,{"name":"get_record_%05d","title":"Record %d","description":"%s (set %d)","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{`, i, i, fillerText, i)
		for j, field := range []string{"key", "fields", "as_of", "format"} {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"%s":{"type":"string","description":"The %s of the record in set %d, as a listing gave it.","minLength":1,"maxLength":%d}`, field, field, i, 64+j)
		}
		b.WriteString(`},"required":["key"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false},"_meta":{"example.com/set":"`)
		fmt.Fprintf(&b, `%d"}}`, i)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// blobResult is a result with about size bytes of text: lines of prose, as a
// file has them, so that every line end is an escape.
func blobResult(size int) []byte {
	const line = `The quick brown fox jumps over the lazy dog, and says \"so what\"; 0123456789.\n`
	b := append(make([]byte, 0, size+128), `{"content":[{"type":"text","text":"`...)
	for len(b) < size {
		b = append(b, line...)
	}
	return append(b, `"}]}`...)
}

// member returns the raw scalar after key in line, such as the id after
// `"id":`; nil when the key is not there.
func member(line []byte, key string) []byte {
	at := bytes.Index(line, []byte(key))
	if at < 0 {
		return nil
	}
	rest := line[at+len(key):]
	if len(rest) > 0 && rest[0] == '"' {
		if end := bytes.IndexByte(rest[1:], '"'); end >= 0 {
			return rest[:end+2]
		}
		return nil
	}
	if end := bytes.IndexAny(rest, ",}"); end >= 0 {
		return rest[:end]
	}
	return nil
}

// answer appends the answer to line, a line itself; nothing for a notification.
func (u *upstream) answer(dst, line []byte) []byte {
	id := member(line, `"id":`)
	if id == nil {
		return dst
	}
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	switch method := string(member(line, `"method":`)); method {
	case `"initialize"`:
		dst = append(dst, `,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}`...)
	case `"tools/list"`:
		dst = append(append(dst, `,"result":`...), u.list...)
	case `"tools/call"`:
		dst = append(append(dst, `,"result":`...), u.call(line)...)
	case `"ping"`:
		dst = append(dst, `,"result":{}`...)
	default:
		dst = append(dst, `,"error":{"code":-32601,"message":"no such method"}`...)
	}
	return append(dst, "}\n"...)
}

func (u *upstream) call(line []byte) []byte {
	if text := member(line, `"text":`); text != nil {
		return append(append([]byte(`{"content":[{"type":"text","text":`), text...), `}]}`...)
	}
	size, _ := strconv.Atoi(string(member(line, `"bytes":`)))
	if u.blob == nil || u.size != size {
		u.blob, u.size = blobResult(size), size
	}
	return u.blob
}

// serve answers line by line until r ends. Answers that are ready together
// leave together.
func (u *upstream) serve(r io.Reader, w io.Writer) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var out []byte
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		out = u.answer(out, line)
		if in.Buffered() > 0 && len(out) < 32<<10 {
			continue
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
		out = out[:0]
	}
}

// serveHTTP answers a message a request on a port of its own, which it names
// on stderr.
func (u *upstream) serveHTTP() error {
	list := u.list
	return listen(func(w http.ResponseWriter, r *http.Request) {
		line, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		own := &upstream{list: list} // blob is not safe to share
		reply(w, own.answer(nil, line))
	})
}

func reply(w http.ResponseWriter, answer []byte) {
	if answer == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer) // a client that is gone needs no answer
}

// listen serves h on a free port of the loopback interface until stdin ends.
func listen(h http.HandlerFunc) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s/mcp\n", ln.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is the news
		os.Exit(0)
	}()
	return http.Serve(ln, h)
}
