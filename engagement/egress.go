package engagement

import "github.com/mcp-gate/mcp-gate/internal/enum"

// Egress is the class of what a result carries out of the place it came from,
// least first. The zero Egress is no class and is in no set.
type Egress uint8

const (
	Metadata       Egress = iota + 1 // names, ids, states, counts, schemas, acknowledgements
	Aggregates                       // statistics, series, answers computed from many records
	RowLevel                         // records, contents of files and pages, messages, logs
	RenderedPixels                   // screenshots, charts, diagrams
	RawPixels                        // photos, scans and other media as stored
)

var egressClasses = enum.Of[Egress]("egress class",
	"metadata", "aggregates", "row_level",
	"rendered_pixels", "raw_pixels")

// EgressClasses returns every Egress, least first.
func EgressClasses() []Egress { return egressClasses.All() }

// Rank returns 0 for [Metadata] up to 4 for [RawPixels], and -1 for no class.
func (e Egress) Rank() int { return int(e) - 1 }

func (e Egress) String() string                { return egressClasses.Word(e) }
func (e Egress) MarshalText() ([]byte, error)  { return egressClasses.Marshal(e) }
func (e *Egress) UnmarshalText(b []byte) error { return egressClasses.Unmarshal(b, e) }

// EgressSet is a set of egress classes, as in the classes that may leave.
type EgressSet = Set[Egress]

// EgressOf returns the set of the given classes.
func EgressOf(classes ...Egress) EgressSet { return EgressSet(0).With(classes...) }

// AllEgress returns the set of every class.
func AllEgress() EgressSet { return EgressOf(EgressClasses()...) }
