package transport

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// state is what a modern client carries from a question to its answer. It is
// sealed: the client can neither read nor change it. That it is used once only
// is the gate's to see to, by the ticket.
type state struct {
	Ticket    string `json:"t,omitempty"` // of the question for a person, or
	Flight    string `json:"k,omitempty"` // the request that waits, and
	Round     int    `json:"n,omitempty"` // since when
	Principal string `json:"p"`
	Profile   string `json:"f"`
	Digest    []byte `json:"d"` // of the tool's name and the arguments
	Issued    int64  `json:"i"` // Unix milliseconds
	Expires   int64  `json:"e"` // Unix milliseconds
}

func (s state) age() time.Duration {
	return max(0, time.Since(time.UnixMilli(s.Issued)))
}

// callDigest names one call. Arguments that differ in spacing or in the order
// of their members are the same; no arguments and {} are not.
func callDigest(name string, args json.RawMessage) []byte {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(name))))
	h.Write([]byte(name))
	if canonical, err := canonjson.Append(nil, args); err == nil {
		args = canonical
	}
	h.Write(args)
	return h.Sum(nil)
}

// sealer seals states with AES-256-GCM.
type sealer struct{ aead cipher.AEAD }

// sealedAs is bound to every seal, so that none is valid for another use.
var sealedAs = []byte("mcp-gate requestState 1")

func newSealer(key [32]byte) *sealer {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the length is right
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has the block size that GCM wants
	}
	return &sealer{aead}
}

func (s *sealer) seal(st state) (string, error) {
	plain, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, sealedAs)), nil
}

var (
	errForeignState = errors.New("requestState is not one that this gate gave out")
	errStaleState   = errors.New("requestState has expired")
)

func (s *sealer) open(text string) (state, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return state{}, errForeignState
	}
	plain, err := s.aead.Open(nil, nil, sealed, sealedAs)
	if err != nil {
		return state{}, errForeignState
	}
	var st state
	if err := json.Unmarshal(plain, &st); err != nil {
		return state{}, errForeignState
	}
	if time.Now().UnixMilli() >= st.Expires {
		return state{}, errStaleState
	}
	return st, nil
}

func (c call) digest() []byte { return callDigest(c.method+" "+c.name, c.args) }

// sealed returns a state for a request of this client.
func (x *exchange) sealed(st state, c call) (string, *jsonrpc.Error) {
	st.Principal, st.Profile, st.Digest = x.c.who.Principal, x.c.who.Profile, c.digest()
	st.Issued = time.Now().UnixMilli()
	text, err := x.c.srv.seal.seal(st)
	if err != nil {
		return "", internalError(err)
	}
	return text, nil
}

// inputRequired answers a modern call with the question; the client sends the
// call again with the answer.
func (x *exchange) inputRequired(a gate.Ask, c call, ses Session) (json.RawMessage, *jsonrpc.Error) {
	sealed, e := x.sealed(state{Ticket: a.Ticket, Expires: a.Expires.UnixMilli()}, c)
	if e != nil {
		return nil, e
	}
	b := []byte(`{"resultType":"input_required","inputRequests":{"` + inputName + `":{"method":"elicitation/create","params":`)
	b = append(b, formParams(a, x.terms.version)...)
	b = append(b, `}},"requestState":`...)
	b = append(strictjson.AppendString(b, sealed), '}')
	return x.complete(b, ses)
}
