package engagement

import "github.com/mcp-gate/mcp-gate/internal/enum"

// Permission is the class of what a tool may do to the world, least first. The
// zero Permission is no class: as a ceiling it lets nothing run.
type Permission uint8

const (
	Read            Permission = iota + 1 // changes nothing
	ReversibleWrite                       // changes state that an ordinary later call can put back
	SourceFileWrite                       // changes files that the person owns
	Destructive                           // cannot be undone: deletes, sends, pays, runs arbitrary code
)

var permissions = enum.Of[Permission]("permission class",
	"read", "reversible_write",
	"source_file_write", "destructive")

// Permissions returns every Permission, least first.
func Permissions() []Permission { return permissions.All() }

// Rank returns 0 for [Read] up to 3 for [Destructive], and -1 for no class.
func (p Permission) Rank() int { return int(p) - 1 }

func (p Permission) String() string                { return permissions.Word(p) }
func (p Permission) MarshalText() ([]byte, error)  { return permissions.Marshal(p) }
func (p *Permission) UnmarshalText(b []byte) error { return permissions.Unmarshal(b, p) }

// AtMost reports whether a call of class p stays under the ceiling. A class or a
// ceiling that was never set stays under nothing and lets nothing through.
func (p Permission) AtMost(ceiling Permission) bool { return p != 0 && p <= ceiling }

// NeedsApproval reports whether a class needs a person's yes wherever no ceiling
// is lower: [SourceFileWrite] and [Destructive]. No class needs one too, since
// nobody knows what such a call does.
func (p Permission) NeedsApproval() bool { return p == 0 || p >= SourceFileWrite }
