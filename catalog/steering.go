package catalog

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcp-gate/mcp-gate/internal/sieve"
)

// kindSteering is a sentence that is about several things of words/steering.txt.
// A pattern of words/poison.txt knows a phrase; this knows what phrases like it
// speak of, however they put it: earlier messages, other servers' tools, what
// the user is not to hear.
const kindSteering = "steering"

// What the weights of one sentence add up to that is shown. The first sentence
// of a description says what the tool does, and a tool for chats or secrets
// speaks of them, so those take more.
const (
	steered        = 5
	steeredFirst   = 1
	steeredTalking = 2
)

const (
	leadingWeight  = 3   // without a group of this weight no sentence is looked at
	shortestSteer  = 8   // bytes of a sentence
	longestSteered = 240 // bytes; a longer sentence is read in parts
	actGroup       = "act"
)

// steer is what words/steering.txt says.
type steer struct {
	groups []steerGroup
	group  []int // by pattern: its group
	all    *sieve.Set
	leads  []string // the patterns of groups that lead
}

type steerGroup struct {
	name   string
	weight int
}

var steers = sync.OnceValue(mustSteers)

func mustSteers() steer {
	var s steer
	var all []string
	eachLine("steering", func(head, body string) error {
		name, number, _ := strings.Cut(head, " ")
		weight, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		g := steerGroup{name, weight}
		at := slices.Index(s.groups, g)
		if at < 0 {
			at = len(s.groups)
			s.groups = append(s.groups, g)
		}
		for words := range strings.SplitSeq(body, ";") {
			expr := strings.TrimSpace(words)
			if c := expr[0]; isWordByte(c) || c == '(' {
				expr = `\b(?:` + expr + `)`
			}
			if !strings.HasSuffix(expr, "*") {
				expr += `\b`
			}
			s.group, all = append(s.group, at), append(all, expr)
			if weight >= leadingWeight {
				s.leads = append(s.leads, expr)
			}
		}
		return nil
	})
	s.all = sieve.New(all...)
	return s
}

// steering shows the first sentence of a text that steers.
func (s *scanner) steering(where, plain string) {
	known := steers()
	needed := steered
	if s.discloses {
		needed += steeredTalking
	}
	first := 0
	if where == "/description" {
		first = steeredFirst
	}
	for sentence := range spans(plain) {
		if about := known.about(sentence, needed+first, s.writes); about != nil {
			s.add(kindSteering, Show, where, fmt.Sprintf("(%s) %s", strings.Join(about, ", "), sentence))
			return
		}
		first = 0
	}
}

// about returns the groups that a sentence is about, nil where they weigh less
// than is needed. A tool that acts by its name may speak of acts.
func (s *steer) about(sentence string, needed int, acts bool) []string {
	var possible []int // patterns
	counted, most := uint64(0), 0
	for _, i := range s.all.Candidates(sentence) {
		g := s.group[i]
		if acts && s.groups[g].name == actGroup {
			continue
		}
		possible = append(possible, i)
		if counted&(1<<g) == 0 {
			counted |= 1 << g
			most += s.groups[g].weight
		}
	}
	if most < needed {
		return nil
	}
	var names []string
	counted, most = 0, 0
	for _, i := range possible {
		if g := s.group[i]; counted&(1<<g) == 0 && s.all.Regexp(i).MatchString(sentence) {
			counted |= 1 << g
			most += s.groups[g].weight
			names = append(names, s.groups[g].name)
		}
	}
	if most < needed {
		return nil
	}
	return names
}

// spans yields the sentences of a folded text, and the items of its lists.
func spans(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			end := min(len(text), longestSteered)
			for i := 0; i+1 < end; i++ {
				if text[i+1] == ' ' && strings.IndexByte(".!?;-*)", text[i]) >= 0 {
					end = i + 1
					break
				}
			}
			if end >= shortestSteer && !yield(strings.ToValidUTF8(strings.TrimSpace(text[:end]), "")) {
				return
			}
			text = text[end:]
		}
	}
}
