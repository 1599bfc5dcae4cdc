package reader

import (
	"strings"
	"unicode"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// Names that are no words: what each calls for.
var (
	nameWeb     = &entry{kinds: kindsOf(kindWeb), domains: engagement.DomainsOf(engagement.DomainWeb, engagement.DomainLiveData)}
	nameMail    = &entry{kinds: kindsOf(kindMessage), domains: engagement.DomainsOf(engagement.DomainMessaging)}
	nameChannel = &entry{kinds: kindsOf(kindChannel, kindMessage), domains: engagement.DomainsOf(engagement.DomainMessaging)}
	namePath    = &entry{kinds: kindsOf(kindFile), domains: engagement.DomainsOf(engagement.DomainFilesystem)}
	nameTicket  = &entry{kinds: kindsOf(kindTicket), domains: engagement.DomainsOf(engagement.DomainLiveData, engagement.DomainOrchestration)}
	nameIssue   = &entry{kinds: kindsOf(kindIssue, kindRepo), domains: engagement.DomainsOf(engagement.DomainVCS)}
	nameCommit  = &entry{kinds: kindsOf(kindRepo), domains: engagement.DomainsOf(engagement.DomainVCS)}
	nameEvent   = &entry{kinds: kindsOf(kindEvent), domains: engagement.DomainsOf(engagement.DomainOrchestration, engagement.DomainLiveData)}
	nameSum     = &entry{domains: engagement.DomainsOf(engagement.DomainCodeExec)}
	nameCode    = &entry{kinds: kindsOf(kindCode), domains: engagement.DomainsOf(engagement.DomainCodeExec)}
)

// hosts are the top-level domains by which a bare host name is known.
var hosts = map[string]bool{
	"com": true, "org": true, "net": true, "io": true, "dev": true, "ai": true, "app": true,
	"co": true, "edu": true, "gov": true, "test": true, "eu": true, "de": true, "uk": true, "fr": true,
}

// name recognises addresses, paths, files, references and identifiers. words
// tells whether the words inside say something too, as those of an address do.
func (p *page) name(body, tail string) (e *entry, words bool) {
	if isWord(body) && !strings.HasPrefix(tail, "()") {
		return nil, false
	}
	switch {
	case strings.Contains(body, "://"), strings.HasPrefix(body, "www."):
		return nameWeb, true
	case body[0] == '@' && len(body) > 1:
		return nameChannel, false
	case body[0] == '#' && len(body) > 1:
		if isDigits(body[1:]) {
			return nameIssue, false
		}
		return nameChannel, false
	case strings.IndexByte(body, '@') > 0:
		if strings.HasPrefix(body, "git@") {
			return nameCommit, true
		}
		return nameMail, false
	case isClock(body):
		return nameEvent, false
	case isTicket(body):
		return nameTicket, false
	case isCommit(body):
		return nameCommit, false
	}
	if isSum(body, tail) {
		return nameSum, false
	}
	if e := p.pathOrFile(body); e != nil {
		return e, false
	}
	if i := strings.LastIndexByte(body, '.'); i > 0 && hosts[body[i+1:]] && isLetter(body[i-1]) {
		return nameWeb, true
	}
	if isIdentifier(body, tail) {
		p.code = true
		return nameCode, false
	}
	return nil, false
}

// isWord reports whether s is an ordinary word: small letters, but perhaps for
// the first.
func isWord(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (i > 0 || c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

func (p *page) pathOrFile(body string) *entry {
	base := body
	slashes := strings.Count(body, "/") + strings.Count(body, `\`)
	if i := strings.LastIndexAny(body, `/\`); i >= 0 {
		base = body[i+1:]
	}
	if i := strings.LastIndexByte(base, '.'); i >= 0 {
		if e := p.lex.exts[strings.ToLower(base[i+1:])]; e != nil && (i > 0 || slashes > 0 || base == ".env") {
			return &entry{kinds: e.kinds | namePath.kinds, domains: e.domains.Union(namePath.domains)}
		}
	}
	switch {
	case strings.HasPrefix(body, "./"), strings.HasPrefix(body, "../"), strings.HasPrefix(body, "~/"),
		len(body) > 2 && body[1] == ':' && body[2] == '\\':
		return namePath
	case body[0] == '/' && len(body) > 2 && isLetter(body[1]):
		return namePath
	case slashes > 0 && (strings.HasSuffix(body, "/") && len(body) > 3 || strings.Contains(body, "*.")):
		return namePath
	case slashes >= 2 && !strings.ContainsFunc(body, unicode.IsDigit):
		return namePath
	case body[0] == '.' && len(body) > 2 && isLetter(body[1]):
		return namePath
	}
	return nil
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// isClock reports whether s is a time of day as people write appointments: 2pm, 10:30am.
func isClock(s string) bool {
	s = strings.ToLower(s)
	hour, ok := strings.CutSuffix(s, "m")
	if !ok || len(hour) < 2 || hour[len(hour)-1] != 'a' && hour[len(hour)-1] != 'p' {
		return false
	}
	hour = hour[:len(hour)-1]
	return len(hour) <= 5 && isDigits(strings.Replace(hour, ":", "", 1))
}

// isSum reports whether s is a part of a calculation: 17.5%, 3*4.
func isSum(s, tail string) bool {
	if s[0] < '0' || s[0] > '9' {
		return false
	}
	return strings.HasSuffix(s, "%") || strings.ContainsAny(s, "*^") || strings.HasPrefix(tail, "%")
}

// isTicket reports whether s is a key such as ENG-442.
func isTicket(s string) bool {
	key, number, ok := strings.Cut(s, "-")
	if !ok || len(key) < 2 || len(key) > 10 || !isDigits(number) {
		return false
	}
	switch key {
	case "UTF", "ISO", "SHA", "GPT", "COVID", "RFC", "MP", "IPV":
		return false
	}
	for i := range len(key) {
		if key[i] < 'A' || key[i] > 'Z' {
			return false
		}
	}
	return true
}

// isCommit reports whether s is an abbreviated or whole commit hash.
func isCommit(s string) bool {
	if len(s) < 7 || len(s) > 40 {
		return false
	}
	digits, letters := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'f':
			letters++
		default:
			return false
		}
	}
	return digits > 0 && letters > 0
}

// isIdentifier reports whether s is written as code writes names.
func isIdentifier(s, tail string) bool {
	if strings.Contains(s, "::") || strings.Contains(s, "=>") || strings.Contains(s, "->") ||
		strings.HasSuffix(s, "(") || strings.HasPrefix(tail, "()") || strings.Contains(s, "()") {
		return true
	}
	humps, under := 0, 0
	for i := 1; i < len(s)-1; i++ {
		switch {
		case s[i-1] >= 'a' && s[i-1] <= 'z' && s[i] >= 'A' && s[i] <= 'Z' && s[i+1] >= 'a' && s[i+1] <= 'z':
			humps++
		case s[i] == '_' && isLetter(s[i-1]):
			under++
		case !isLetter(s[i]) && s[i] != '_' && (s[i] < '0' || s[i] > '9'):
			return false
		}
	}
	return under > 0 || humps > 0 && s[0] >= 'a' || humps > 1
}
