package inbox

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/mcp-gate/mcp-gate/internal/durable"
	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// A KeyKind says what it takes to use a key.
type KeyKind uint8

const (
	KeyGate       KeyKind = iota + 1 // nothing: the gate's own, for what a client answered
	KeyPassphrase                    // a passphrase typed at a terminal
	KeyPasskey                       // an authenticator that verified its user
)

var keyKinds = enum.Of[KeyKind]("kind of key", "gate", "passphrase", "passkey")

func (k KeyKind) String() string                { return keyKinds.Word(k) }
func (k KeyKind) MarshalText() ([]byte, error)  { return keyKinds.Marshal(k) }
func (k *KeyKind) UnmarshalText(b []byte) error { return keyKinds.Unmarshal(b, k) }

// A Signer signs decisions and grants. [*GateKey] and [*ApproverKey] do.
type Signer interface {
	KeyID() string
	Sign(message []byte) ([]byte, error)
}

// KeyID returns the id of a public key. It is derived, so that an entry cannot
// lie about it.
func KeyID(public []byte) string { return "k_" + hexSHA256(public)[:32] }

// A GateKey is the home's own key. It signs what a client answered (level L0)
// and proves only that some gate of this home wrote it.
type GateKey struct {
	seed    []byte
	private func() ed25519.PrivateKey // made when first asked for: most gates ask nobody
}

const gateKeyFile = "gate.key"

// LoadGateKey reads the gate's key from the directory of keys, making it, and
// the directory, where there is none. Gates that start at once agree on one.
func LoadGateKey(dir string, random io.Reader) (*GateKey, error) {
	path := filepath.Join(dir, gateKeyFile)
	seed, err := readPrivateFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if seed, err = makeGateKey(dir, path, random); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the gate's key: %w", err)
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("read the gate's key %s: %d bytes, want %d", path, len(seed), ed25519.SeedSize)
	}
	return &GateKey{seed, sync.OnceValue(func() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(seed) })}, nil
}

func makeGateKey(dir, path string, random io.Reader) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the gate's key: %w", err)
	}
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("make the gate's key: %w", err)
	}
	if err := durable.Create(path, seed); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the gate's key: %w", err)
	}
	return readPrivateFile(path) // another gate's, where that one was first
}

// KeyID returns the key's id.
func (k *GateKey) KeyID() string { return KeyID(k.public()) }

// Sign signs the message.
func (k *GateKey) Sign(message []byte) ([]byte, error) {
	return ed25519.Sign(k.private(), message), nil
}

func (k *GateKey) public() []byte { return k.private().Public().(ed25519.PublicKey) }

// Launch returns the keyed digest of how a server is started: the expanded
// command, arguments, URL, headers, environment and folder, in an order that
// the caller keeps. Without the key it tells nothing of the secrets in them.
func (k *GateKey) Launch(parts ...string) string {
	key, err := hkdf.Key(sha256.New, k.seed, nil, "mcp-gate launch 1", sha256.Size)
	if err != nil { // only for lengths that this is not
		panic(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(newMessage("launch").list(parts))
	return hex.EncodeToString(mac.Sum(nil))
}

// An Approver's public half as the list of approvers has it.
type Approver struct {
	Key     string    `json:"key"`
	Kind    KeyKind   `json:"kind"`
	Public  []byte    `json:"public"`
	Label   string    `json:"label"`
	Created time.Time `json:"created"`
}

// An enrolment is one line of approvers.jsonl, which is only ever added to.
// The first one is signed by the key it enrols; every other by a key that was
// enrolled before and not removed since. A line that is not breaks the whole
// list: nobody can add a key beside the first without using it.
type enrolment struct {
	Do        string    `json:"do"` // enroll or remove
	Approver  Approver  `json:"approver"`
	At        time.Time `json:"at"`
	By        string    `json:"by"`
	Before    string    `json:"before"` // digest of the lines before this one
	Signature []byte    `json:"signature"`
}

const (
	doEnroll = "enroll"
	doRemove = "remove"

	approversFile = "approvers.jsonl"
)

func (e enrolment) message() []byte {
	a := e.Approver
	return newMessage("mcp-gate enrolment 1").
		add(e.Do, a.Key, a.Kind.String(), string(a.Public), a.Label).time(a.Created).
		time(e.At).add(e.By, e.Before)
}

// A VerifyFunc reports why a signature over a message is not that of the
// public key; nil where it is.
type VerifyFunc func(public, message, signature []byte) error

// A Ring knows the keys whose signatures count, and for how much. It is
// immutable as [OpenRing] reads it; [Ring.Follow] makes one that sees later
// enrolments.
type Ring struct {
	dir       string
	boundary  bool
	gate      *GateKey
	approvers []Approver
	lines     []byte // of approvers.jsonl, as read
	verify    map[KeyKind]VerifyFunc
	follow    *follower // nil: the list stays as it was read
}

// A follower reads the list of approvers again whenever its file changed.
type follower struct {
	mu   sync.Mutex // guards what follows
	seen fs.FileInfo
	now  *Ring
}

// Follow returns a ring that goes by the list of approvers as it is at each
// use, for a process that outlives enrolments. A list that cannot be read
// proves nothing. Safe for concurrent use.
func (r *Ring) Follow() *Ring {
	live := *r
	live.follow = &follower{}
	return &live
}

// current is the ring as the file of approvers is now.
func (r *Ring) current() *Ring {
	if r.follow == nil {
		return r
	}
	f := r.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(filepath.Join(r.dir, approversFile))
	if err != nil {
		info = nil
	}
	if f.now != nil && sameInfo(info, f.seen) {
		return f.now
	}
	now, err := OpenRing(r.dir, r.gate, r.boundary, r.verify)
	if err != nil {
		now = &Ring{dir: r.dir, boundary: r.boundary, gate: r.gate, verify: r.verify}
	}
	f.seen, f.now = info, now
	return now
}

func sameInfo(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// OpenRing reads the keys of a home: the gate's own and the list of approvers
// beside it. Boundary says that gate, keys and store belong to another OS
// user, host or container than the agent, which makes an approver's key worth
// L2. Verify adds ways to check kinds of keys that this package does not know
// itself; a signature of a kind that nothing can check proves nothing.
func OpenRing(dir string, gate *GateKey, boundary bool, verify map[KeyKind]VerifyFunc) (*Ring, error) {
	r := &Ring{dir: dir, boundary: boundary, gate: gate, verify: map[KeyKind]VerifyFunc{
		KeyGate: verifyEd25519, KeyPassphrase: verifyEd25519,
	}}
	for kind, f := range verify {
		r.verify[kind] = f
	}
	lines, err := readPrivateFile(filepath.Join(dir, approversFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the list of approvers: %w", err)
	}
	if err := r.replay(lines); err != nil {
		return nil, fmt.Errorf("read the list of approvers %s: %w", filepath.Join(dir, approversFile), err)
	}
	return r, nil
}

// replay follows the list from its first line. Nothing of a broken list counts.
func (r *Ring) replay(lines []byte) error {
	for n, rest := 1, lines; len(rest) > 0; n++ {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole {
			return fmt.Errorf("line %d is cut short", n)
		}
		var e enrolment
		if err := strictUnmarshal(line, &e); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		before := lines[:len(lines)-len(rest)]
		if err := r.admit(e, before); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		rest = after
	}
	r.lines = lines
	return nil
}

func (r *Ring) admit(e enrolment, before []byte) error {
	if e.Approver.Key != KeyID(e.Approver.Public) {
		return fmt.Errorf("%s is not the id of its key", e.Approver.Key)
	}
	if e.Before != hexSHA256(before) {
		return errors.New("it does not follow the lines before it")
	}
	by := e.Approver
	if len(r.approvers) > 0 {
		i := r.index(e.By)
		if i < 0 {
			return fmt.Errorf("signed by %q, which is not enrolled", e.By)
		}
		by = r.approvers[i]
	}
	if e.By != by.Key {
		return fmt.Errorf("signed by %q, want %q", e.By, by.Key)
	}
	if err := r.check(by.Kind, by.Public, e.message(), e.Signature); err != nil {
		return err
	}
	i := r.index(e.Approver.Key)
	switch {
	case e.Do == doEnroll && i < 0 && e.Approver.Kind != KeyGate:
		r.approvers = append(r.approvers, e.Approver)
	case e.Do == doRemove && i >= 0:
		r.approvers = slices.Delete(slices.Clone(r.approvers), i, i+1)
	default:
		return fmt.Errorf("cannot %s the %s key %s here", e.Do, e.Approver.Kind, e.Approver.Key)
	}
	return nil
}

func (r *Ring) index(key string) int {
	return slices.IndexFunc(r.approvers, func(a Approver) bool { return a.Key == key })
}

func (r *Ring) check(kind KeyKind, public, message, signature []byte) error {
	verify := r.verify[kind]
	if verify == nil {
		return fmt.Errorf("a %s key cannot be checked here", kind)
	}
	return verify(public, message, signature)
}

// Dir returns the directory of the keys.
func (r *Ring) Dir() string { return r.dir }

// Approvers returns the enrolled keys in the order of their enrolment.
func (r *Ring) Approvers() []Approver { return slices.Clone(r.current().approvers) }

// Reach returns the highest level that a person can prove at this home now:
// L0 as long as nobody enrolled a key.
func (r *Ring) Reach() Level {
	r = r.current()
	reach := L0
	for _, a := range r.approvers {
		if r.verify[a.Kind] != nil {
			reach = max(reach, r.worth(a.Kind))
		}
	}
	return reach
}

func (r *Ring) worth(kind KeyKind) Level {
	switch {
	case kind == KeyGate:
		return L0
	case r.boundary:
		return L2
	}
	return L1
}

// Verify checks a decision's signature and returns the level that it proves:
// the claimed one, but no more than its key is worth. An error is a
// *[ProofError].
func (r *Ring) Verify(d Decision) (Level, error) {
	if d.Key == r.gate.KeyID() && d.Verdict == Allow && d.Channel != Elicitation {
		return 0, &ProofError{d.Ticket, "the gate's own key proves a client's answer and nothing else"}
	}
	level, err := r.proves(d.Key, d.Level, d.Message(), d.Signature)
	if err != nil {
		return 0, &ProofError{d.Ticket, err.Error()}
	}
	return level, nil
}

func (r *Ring) proves(key string, claimed Level, message, signature []byte) (Level, error) {
	r = r.current()
	if claimed == 0 {
		return 0, errors.New("it claims no level")
	}
	if key == r.gate.KeyID() {
		return min(claimed, L0), r.check(KeyGate, r.gate.public(), message, signature)
	}
	i := r.index(key)
	if i < 0 {
		return 0, fmt.Errorf("key %q is not enrolled", key)
	}
	a := r.approvers[i]
	return min(claimed, r.worth(a.Kind)), r.check(a.Kind, a.Public, message, signature)
}

// NeedsKeyError says that a key is enrolled already, and that it has to sign
// before another one counts.
type NeedsKeyError struct{ Enrolled []Approver }

func (e *NeedsKeyError) Error() string {
	return fmt.Sprintf("%d approver keys are enrolled: one of them has to sign", len(e.Enrolled))
}

// Enroll adds a key. By signs for it: an enrolled key, or the new key itself
// where it is the first. Two enrolments at once cannot both succeed.
func (r *Ring) Enroll(a Approver, by Signer, now time.Time) error {
	a.Key = KeyID(a.Public)
	if len(r.approvers) > 0 && r.index(by.KeyID()) < 0 {
		return &NeedsKeyError{r.Approvers()}
	}
	return r.append(enrolment{Do: doEnroll, Approver: a}, by, now)
}

// Remove takes a key off the list; any enrolled key may sign that, the removed
// one included. Decisions that it signed and nobody used yet prove nothing
// any more.
func (r *Ring) Remove(key string, by Signer, now time.Time) error {
	i := r.index(key)
	if i < 0 {
		return fmt.Errorf("remove approver key: %q is not enrolled", key)
	}
	return r.append(enrolment{Do: doRemove, Approver: r.approvers[i]}, by, now)
}

// append writes the list with one line more beside the old one and puts it in
// its place, unless the list is no longer what this ring has read.
func (r *Ring) append(e enrolment, by Signer, now time.Time) error {
	e.At, e.By, e.Before = now.Truncate(time.Microsecond), by.KeyID(), hexSHA256(r.lines)
	e.Approver.Created = e.Approver.Created.Truncate(time.Microsecond)
	signature, err := by.Sign(e.message())
	if err != nil {
		return fmt.Errorf("%s approver key: %w", e.Do, err)
	}
	e.Signature = signature
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("%s approver key: %w", e.Do, err)
	}
	lines := append(slices.Clone(r.lines), append(line, '\n')...)
	trial := Ring{gate: r.gate, verify: r.verify}
	if err := trial.replay(lines); err != nil {
		return fmt.Errorf("%s approver key: %w", e.Do, err)
	}
	if err := replaceFile(filepath.Join(r.dir, approversFile), r.lines, lines); err != nil {
		return fmt.Errorf("%s approver key: %w", e.Do, err)
	}
	return nil
}

// Argon2id as RFC 9106 recommends where memory is limited: three passes over
// 64 MiB with four lanes. What a file says is honoured within bounds that keep
// a forged file from being trivial to break or from taking all memory.
const (
	argonTime, minArgonTime, maxArgonTime       = 3, 1, 16
	argonMemory, minArgonMemory, maxArgonMemory = 64 << 10, 8 << 10, 1 << 20 // KiB
	argonThreads                                = 4

	// MinPassphrase is the fewest bytes of a passphrase.
	MinPassphrase = 8
)

// sealedKey is an approver's private key under a passphrase: the Ed25519 seed
// in XChaCha20-Poly1305, its key from Argon2id. Everything beside the seed is
// authenticated with it.
type sealedKey struct {
	Version int       `json:"version"`
	Public  []byte    `json:"public"`
	Label   string    `json:"label"`
	Created time.Time `json:"created"`
	KDF     string    `json:"kdf"`
	Time    uint32    `json:"time"`
	Memory  uint32    `json:"memory"` // KiB
	Threads uint8     `json:"threads"`
	Salt    []byte    `json:"salt"`
	Nonce   []byte    `json:"nonce"`
	Sealed  []byte    `json:"sealed"`
}

func (s sealedKey) context() []byte {
	return newMessage("mcp-gate approver key 1").
		add(string(s.Public), s.Label).time(s.Created).
		add(s.KDF, fmt.Sprint(s.Time), fmt.Sprint(s.Memory), fmt.Sprint(s.Threads), string(s.Salt))
}

func (s sealedKey) key(passphrase []byte) []byte {
	return argon2.IDKey(passphrase, s.Salt, s.Time, s.Memory, s.Threads, chacha20poly1305.KeySize)
}

// An ApproverKey is a person's unlocked key. Hold it no longer than the
// decision takes, and [ApproverKey.Forget] it then.
type ApproverKey struct {
	private ed25519.PrivateKey // nil once forgotten
	public  ed25519.PublicKey
}

func newApproverKey(seed []byte) *ApproverKey {
	private := ed25519.NewKeyFromSeed(seed)
	return &ApproverKey{private, private.Public().(ed25519.PublicKey)}
}

// ErrPassphrase says that a passphrase does not open a key.
var ErrPassphrase = errors.New("the passphrase does not open this key")

// NewApproverKey makes a key under a passphrase and writes its file to the
// ring's directory, 0600. It counts for nothing until [Ring.Enroll] took it.
// The passphrase must come from a terminal, never from an argument, a variable
// or a file; the caller clears it.
func NewApproverKey(dir, label string, passphrase []byte, random io.Reader, now time.Time) (*ApproverKey, Approver, error) {
	if len(passphrase) < MinPassphrase {
		return nil, Approver{}, fmt.Errorf("make an approver key: a passphrase needs at least %d bytes", MinPassphrase)
	}
	var entropy [ed25519.SeedSize + 16 + chacha20poly1305.NonceSizeX]byte
	if _, err := io.ReadFull(random, entropy[:]); err != nil {
		return nil, Approver{}, fmt.Errorf("make an approver key: %w", err)
	}
	seed, salt, nonce := entropy[:32], entropy[32:48], entropy[48:]
	k := newApproverKey(seed)
	s := sealedKey{
		Version: 1, Public: k.public, Label: label, Created: now.Truncate(time.Microsecond),
		KDF: "argon2id", Time: argonTime, Memory: argonMemory, Threads: argonThreads, Salt: salt, Nonce: nonce,
	}
	aead, err := chacha20poly1305.NewX(s.key(passphrase))
	if err != nil {
		return nil, Approver{}, fmt.Errorf("make an approver key: %w", err)
	}
	s.Sealed = aead.Seal(nil, nonce, seed, s.context())
	file, err := json.Marshal(s)
	if err != nil {
		return nil, Approver{}, fmt.Errorf("make an approver key: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, Approver{}, fmt.Errorf("make an approver key: %w", err)
	}
	if err := durable.Create(approverFile(dir, k.KeyID()), append(file, '\n')); err != nil {
		return nil, Approver{}, fmt.Errorf("make an approver key: %w", err)
	}
	return k, Approver{k.KeyID(), KeyPassphrase, s.Public, label, s.Created}, nil
}

func approverFile(dir, key string) string { return filepath.Join(dir, key+".key") }

// Unlock opens an enrolled key of kind passphrase. A wrong passphrase is an
// error wrapping [ErrPassphrase].
func (r *Ring) Unlock(key string, passphrase []byte) (*ApproverKey, error) {
	if r.index(key) < 0 {
		return nil, fmt.Errorf("unlock approver key: %q is not enrolled", key)
	}
	b, err := readPrivateFile(approverFile(r.dir, key))
	if err != nil {
		return nil, fmt.Errorf("unlock approver key %s: %w", key, err)
	}
	k, err := unseal(b, passphrase)
	if err != nil {
		return nil, fmt.Errorf("unlock approver key %s: %w", key, err)
	}
	if k.KeyID() != key {
		return nil, fmt.Errorf("unlock approver key %s: the file holds %s", key, k.KeyID())
	}
	return k, nil
}

func unseal(file, passphrase []byte) (*ApproverKey, error) {
	var s sealedKey
	if err := strictUnmarshal(bytes.TrimSpace(file), &s); err != nil {
		return nil, err
	}
	if s.Version != 1 || s.KDF != "argon2id" || len(s.Nonce) != chacha20poly1305.NonceSizeX || len(s.Salt) < 16 ||
		s.Time < minArgonTime || s.Time > maxArgonTime || s.Memory < minArgonMemory || s.Memory > maxArgonMemory || s.Threads < 1 {
		return nil, errors.New("its parameters are none that this gate writes")
	}
	aead, err := chacha20poly1305.NewX(s.key(passphrase))
	if err != nil {
		return nil, err
	}
	seed, err := aead.Open(nil, s.Nonce, s.Sealed, s.context())
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, ErrPassphrase
	}
	return newApproverKey(seed), nil
}

// KeyID returns the key's id.
func (k *ApproverKey) KeyID() string { return KeyID(k.public) }

// Sign signs the message. It is an error after [ApproverKey.Forget].
func (k *ApproverKey) Sign(message []byte) ([]byte, error) {
	if k.private == nil {
		return nil, errors.New("the key was forgotten")
	}
	return ed25519.Sign(k.private, message), nil
}

// Forget overwrites the private key.
func (k *ApproverKey) Forget() {
	clear(k.private)
	k.private = nil
}
