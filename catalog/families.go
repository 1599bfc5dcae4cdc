package catalog

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// families are the words that find each other, see words/synonyms.txt. Keys
// and values are stems, or two stems with a space between.
type families struct {
	related   map[string][]relative
	verbStems map[string]bool // the verbs among them
	chatter   map[string]bool // stems of words/chatter.txt
	published map[string]bool // stems of what people publish
	web       []string        // what a search of the web is called
	acts      map[string]uint8
}

type relative struct {
	stem   string
	weight float32
}

// kinds are the families. They are read when tools are first searched.
var kinds = sync.OnceValue(mustFamilies)

func mustFamilies() *families {
	f := &families{related: map[string][]relative{}, verbStems: map[string]bool{}, chatter: map[string]bool{}, published: map[string]bool{}, acts: map[string]uint8{}}
	key := func(w string) string {
		var out []string
		for _, part := range strings.Split(w, "_") {
			out = append(out, stem(part))
		}
		return strings.Join(out, " ")
	}
	var act uint8
	eachLine("synonyms", func(head, body string) error {
		switch head {
		case "act":
			act++
			for _, word := range strings.Fields(body) {
				f.acts[stem(word)] = act
			}
		case "published":
			for _, word := range strings.Fields(body) {
				f.published[stem(word)] = true
			}
		case "web":
			for _, words := range strings.Fields(body) {
				f.web = append(f.web, key(words))
			}
		case "verbs", "nouns":
			weight := float32(verbWeight)
			if head == "nouns" {
				weight = nounWeight
			}
			var all []string
			for _, word := range strings.Fields(body) {
				all = append(all, key(word))
			}
			for _, x := range all {
				if head == "verbs" {
					f.verbStems[x] = true
				}
				for _, y := range all {
					f.relate(x, y, weight)
				}
			}
		case "means":
			from, to, ok := strings.Cut(body, ">")
			if !ok {
				return fmt.Errorf("no >")
			}
			var means []string
			for _, y := range strings.Fields(to) {
				means = append(means, key(y))
			}
			for _, x := range strings.Fields(from) {
				x = key(x)
				for _, y := range means {
					f.relate(x, y, meansWeight)
				}
			}
		default:
			return fmt.Errorf("%q is no kind of line", head)
		}
		return nil
	})
	eachLine("tongues", func(head, body string) error {
		english := strings.Fields(head)
		for _, word := range strings.Fields(body) {
			for _, e := range english {
				f.relate(key(word), key(e), tongueWeight)
			}
			f.relate(key(english[0]), key(word), tongueWeight)
		}
		return nil
	})
	eachLine("chatter", func(_, body string) error {
		for _, w := range strings.Fields(body) {
			f.chatter[stem(w)] = true
		}
		return nil
	})
	return f
}

// act is the act that a word is a verb of, zero for none.
func (f *families) act(w string) uint8 {
	if v, _, ok := lex().lemma(w); ok {
		w = v
	}
	return f.acts[stem(w)]
}

func (f *families) relate(x, y string, weight float32) {
	if x == y {
		return
	}
	i := slices.IndexFunc(f.related[x], func(r relative) bool { return r.stem == y })
	if i < 0 {
		f.related[x] = append(f.related[x], relative{y, weight})
		return
	}
	f.related[x][i].weight = max(f.related[x][i].weight, weight)
}
