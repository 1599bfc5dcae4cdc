package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mcp-gate/mcp-gate/internal/durable"
)

// A pack is one file with the accepted definitions of one server, taken apart
// already: what a start reads of them. It is written, and synced, before the
// lock names what is in it.
//
//	mcp-gate pack 3 SHA-256-OF-THE-REST
//	LENGTH-OF-HEADS  HEADS  DEFINITIONS
//
// A head is a tool's digest, what [NewTool] reads in its definition and what
// [Listable] says of it; the definitions' bytes follow one another in the order
// of the heads. Where one of the two comes to say something else, the number in
// the first line changes: a pack that is not understood is made anew.
const packHeader = "mcp-gate pack 3 "

// packFile is where the pack of the server with this alias is.
func (d *Ledger) packFile(alias string) string {
	sum := sha256.Sum256([]byte(alias))
	return filepath.Join(d.dir, hex.EncodeToString(sum[:16])+".pack")
}

// pack returns what is packed of a server, by the tool's own name. A pack that is
// missing, damaged or of another version is an empty one: the definitions'
// own files hold the same bytes.
func (d *Ledger) pack(alias string) map[string]Tool {
	content, err := readAtMost(d.packFile(alias), maxLock)
	if err != nil {
		return nil
	}
	tools, err := unpack(alias, content)
	if err != nil {
		return nil
	}
	return tools
}

// writePack writes a pack with these tools, all of one server. It is not yet
// certain to outlast a crash when the folder is not synced.
func (d *Ledger) writePack(alias string, tools []Tool) error {
	return durable.Write(d.packFile(alias), packed(tools), 0o600)
}

func packed(tools []Tool) []byte {
	var heads, raws []byte
	str := func(s string) {
		heads = binary.AppendUvarint(heads, uint64(len(s)))
		heads = append(heads, s...)
	}
	for _, t := range tools {
		str(t.Digest)
		str(t.ID.Tool)
		str(t.Title)
		str(t.Description)
		heads = binary.AppendUvarint(heads, uint64(len(t.Params)))
		for _, p := range t.Params {
			str(p)
		}
		var hints byte
		for i, h := range []*bool{t.Hints.ReadOnly, t.Hints.Destructive, t.Hints.Idempotent, t.Hints.OpenWorld} {
			if h != nil {
				hints |= 1 << (2 * i)
				if *h {
					hints |= 2 << (2 * i)
				}
			}
		}
		at := 0
		if t.InputSchema != nil {
			at = bytes.Index(t.Raw, t.InputSchema) // the same bytes elsewhere would do as well
		}
		heads = append(heads, hints)
		if err := t.Listable(); err != nil {
			str(err.Error())
		} else {
			str("")
		}
		for _, n := range []int{len(t.Raw), at, len(t.InputSchema)} {
			heads = binary.AppendUvarint(heads, uint64(n))
		}
		raws = append(raws, t.Raw...)
	}
	body := binary.AppendUvarint(nil, uint64(len(heads)))
	body = append(append(body, heads...), raws...)
	sum := sha256.Sum256(body)
	return append([]byte(packHeader+hex.EncodeToString(sum[:])+"\n"), body...)
}

var errPack = errors.New("it is cut or altered")

// unpack takes a pack apart. The tools share its bytes.
func unpack(alias string, content []byte) (map[string]Tool, error) {
	line, body, ok := bytes.Cut(content, []byte{'\n'})
	if !ok || !bytes.HasPrefix(line, []byte(packHeader)) {
		return nil, fmt.Errorf("the pack of %s is of another version", alias)
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != string(line[len(packHeader):]) {
		return nil, fmt.Errorf("the pack of %s: %w", alias, errPack)
	}
	n, size := binary.Uvarint(body)
	if size <= 0 || n > uint64(len(body)-size) {
		return nil, fmt.Errorf("the pack of %s: %w", alias, errPack)
	}
	u := unpacker{heads: string(body[size : size+int(n)]), raws: body[size+int(n):]}
	tools := map[string]Tool{}
	for u.heads != "" && !u.bad {
		t := u.tool(alias)
		tools[t.ID.Tool] = t
	}
	if u.bad || len(u.raws) > 0 {
		return nil, fmt.Errorf("the pack of %s: %w", alias, errPack)
	}
	return tools, nil
}

// unpacker reads a pack. After something that cannot be it is bad, and gives
// nothing more.
type unpacker struct {
	heads string
	raws  []byte
	bad   bool
}

func (u *unpacker) tool(alias string) Tool {
	t := Tool{Digest: u.str()}
	t.ID = ToolID{alias, u.str()}
	t.Title, t.Description = u.str(), u.str()
	for range u.number() {
		if u.bad {
			return t
		}
		t.Params = append(t.Params, u.str())
	}
	t.Hints = u.hints()
	unlisted := u.str()
	t.unlisted = &unlisted
	length, at, schema := u.number(), u.number(), u.number()
	if u.bad || length > len(u.raws) || at > length || schema > length-at {
		u.bad = true
		return t
	}
	t.Raw, u.raws = u.raws[:length:length], u.raws[length:]
	if schema > 0 {
		t.InputSchema = t.Raw[at : at+schema : at+schema]
	}
	return t
}

func (u *unpacker) number() int {
	var buf [binary.MaxVarintLen64]byte
	n, size := binary.Uvarint(buf[:copy(buf[:], u.heads)])
	if size <= 0 || n > maxLock {
		u.bad, u.heads = true, ""
		return 0
	}
	u.heads = u.heads[size:]
	return int(n)
}

func (u *unpacker) str() string {
	n := u.number()
	if n > len(u.heads) {
		u.bad = true
		return ""
	}
	s := u.heads[:n]
	u.heads = u.heads[n:]
	return s
}

func (u *unpacker) hints() Hints {
	if u.heads == "" {
		u.bad = true
		return Hints{}
	}
	hints := u.heads[0]
	u.heads = u.heads[1:]
	hint := func(i int) *bool {
		if hints>>(2*i)&1 == 0 {
			return nil
		}
		yes := hints>>(2*i)&2 != 0
		return &yes
	}
	return Hints{ReadOnly: hint(0), Destructive: hint(1), Idempotent: hint(2), OpenWorld: hint(3)}
}
