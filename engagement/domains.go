package engagement

import "github.com/mcp-gate/mcp-gate/internal/enum"

// Domain is a kind of work that a tool serves or a request needs. The ten words
// are the whole vocabulary: a free subject such as "weather" matches no tool and is
// refused. Domains have no order. The zero Domain is none and is in no set.
type Domain uint8

const (
	DomainLiveData Domain = iota + 1
	DomainWeb
	DomainFilesystem
	DomainCodeExec
	DomainMemory
	DomainMessaging
	DomainDocuments
	DomainOrchestration
	DomainVCS
	DomainObservability
)

var domains = enum.Of[Domain]("domain",
	"live-data", "web", "filesystem", "code-exec", "memory",
	"messaging", "documents", "orchestration", "vcs", "observability")

// Domains returns every Domain, in the order of the vocabulary.
func Domains() []Domain { return domains.All() }

func (d Domain) String() string                { return domains.Word(d) }
func (d Domain) MarshalText() ([]byte, error)  { return domains.Marshal(d) }
func (d *Domain) UnmarshalText(b []byte) error { return domains.Unmarshal(b, d) }

// DomainSet is a set of domains.
type DomainSet = Set[Domain]

// DomainsOf returns the set of the given domains.
func DomainsOf(domains ...Domain) DomainSet { return DomainSet(0).With(domains...) }

// Floor returns the domains that every act has: enough to look at what is at
// hand and to recall what is known, so that a misread request can be noticed.
func Floor() DomainSet { return DomainsOf(DomainFilesystem, DomainMemory) }

// actDomains is what each act needs beyond the floor.
var actDomains = map[Act]DomainSet{
	ActConverse:    DomainsOf(),
	ActAnswer:      DomainsOf(DomainLiveData, DomainWeb),
	ActLocate:      DomainsOf(DomainLiveData, DomainWeb, DomainVCS),
	ActAnalyze:     DomainsOf(DomainLiveData, DomainWeb, DomainCodeExec, DomainVCS),
	ActAuthor:      DomainsOf(DomainDocuments, DomainWeb),
	ActModify:      DomainsOf(DomainDocuments, DomainCodeExec, DomainVCS),
	ActOperate:     DomainsOf(DomainCodeExec, DomainWeb, DomainLiveData, DomainMessaging, DomainDocuments, DomainOrchestration),
	ActVerify:      DomainsOf(DomainCodeExec, DomainObservability),
	ActOrchestrate: DomainsOf(DomainOrchestration, DomainCodeExec),
	ActGovern:      DomainsOf(DomainMemory, DomainOrchestration, DomainDocuments, DomainObservability),
}

// Domains returns what the act needs beyond the [Floor].
func (a Act) Domains() DomainSet { return actDomains[a] }

// Required is which domains a piece of work asks for: all of them, or only those
// of a set. The zero Required is only the empty set, so it asks for nothing.
// Values are comparable with ==.
type Required struct {
	// set is the domains asked for. All is every bit of it, which no set built of
	// domains can be; so meeting is &, joining is |, and all absorbs by itself.
	set DomainSet
}

// AllDomains returns the Required that asks for every domain, also for such as a
// later version of the vocabulary may add.
func AllDomains() Required { return Required{^DomainSet(0)} }

// OnlyDomains returns the Required that asks for the domains of a set.
func OnlyDomains(set DomainSet) Required { return Required{set} }

// All reports whether every domain is asked for.
func (r Required) All() bool { return r == AllDomains() }

// Set returns the domains asked for; for all, those of the vocabulary.
func (r Required) Set() DomainSet { return r.set.Intersect(DomainsOf(Domains()...)) }

// Has reports whether d is asked for.
func (r Required) Has(d Domain) bool { return r.set.Has(d) }

// Intersect returns the domains that both ask for; all is its identity.
func (r Required) Intersect(s Required) Required { return Required{r.set.Intersect(s.set)} }

// Union returns the domains that either asks for; all absorbs.
func (r Required) Union(s Required) Required { return Required{r.set.Union(s.set)} }

// Admits reports whether a tool that declares these domains is in the slice: it
// serves one that is asked for, or it declares none and is never sliced away.
func (r Required) Admits(declared DomainSet) bool {
	return declared.Empty() || !r.set.Intersect(declared).Empty()
}
