package clients

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// hidden stands for a value that is not shown.
const hidden = "(hidden)"

// onlyReference is a text whose secret part is a reference, so that all of it may
// be shown.
var onlyReference = lazy.Regexp(`^(?:(?i:bearer|basic|token)\s+)?\$\{[A-Za-z0-9_:.-]*\}$`)

// ShownValue is a variable's or a header's value for a preview: references are
// shown, anything else is not.
func ShownValue(value string) string {
	if onlyReference().MatchString(value) && !strings.Contains(value, ":-") {
		return value
	}
	return hidden
}

var (
	// secretName is part of a flag, variable or parameter whose value is a secret.
	secretName = lazy.Regexp(`(?i)(key|token|secret|passw|pwd|pass$|auth|credential|bearer|cookie|session|signature|private|pat$|jwt|dsn|connection|conn[_-]?str|header|api[_-]?id)`)
	// secretText looks like a secret by itself: a known beginning, or 24 and more
	// characters of letters and digits mixed.
	secretText = lazy.Regexp(`(?i)\b(sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|npm|hf|pat|ya29|eyj|akia|asia|aiza|sntrys|lin_api|figd|dop_v1|shpat|sq0)[-_.a-z0-9]{8,}`)
	longText   = lazy.Regexp(`^[A-Za-z0-9+/_=.-]{24,}$`)
	// envFlags carry NAME=VALUE next.
	envFlags = map[string]bool{"-e": true, "--env": true, "--build-arg": true}
)

// ShownArgs is a command's arguments for a preview: what may be a secret is
// hidden, whether it stands alone, after a flag or within a text.
func ShownArgs(args []string) []string {
	out := make([]string, len(args))
	hideNext, env := false, false
	for i, a := range args {
		switch {
		case hideNext && !strings.HasPrefix(a, "--"):
			out[i] = ShownValue(a)
		default:
			out[i] = shownArg(a, env)
		}
		name, _, joined := strings.Cut(a, "=")
		flag := strings.HasPrefix(a, "-")
		hideNext = flag && !joined && (secretName().MatchString(name) || name == "-H")
		env = envFlags[a]
	}
	return out
}

func shownArg(a string, env bool) string {
	name, value, joined := strings.Cut(a, "=")
	switch {
	case joined && !strings.Contains(name, "://") && (env || secretName().MatchString(name) || looksSecret(value)):
		return name + "=" + ShownValue(value)
	case strings.Contains(a, "://"):
		return shownURL(a)
	case regexp.MustCompile(`^[A-Za-z-]+:\s*\S`).MatchString(a) && secretName().MatchString(strings.SplitN(a, ":", 2)[0]):
		header, value, _ := strings.Cut(a, ":")
		return header + ": " + ShownValue(strings.TrimSpace(value))
	case looksSecret(a):
		return ShownValue(a)
	}
	return a
}

func looksSecret(s string) bool {
	if secretText().MatchString(s) {
		return true
	}
	mixed := strings.ContainsAny(s, "0123456789") && strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' })
	return longText().MatchString(s) && mixed && !strings.Contains(s, "/") && !strings.ContainsAny(s, ".") && strings.Count(s, "-") < 3
}

// shownURL cuts an address to its scheme, host and path; a path's part that
// looks like a secret is hidden too.
func shownURL(s string) string {
	before, rest, _ := strings.Cut(s, "://")
	scheme := before[strings.LastIndexAny(before, " =:")+1:]
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil || u.Host == "" {
		return scheme + "://" + hidden
	}
	out := scheme + "://" + u.Host
	if u.User != nil {
		out = scheme + "://" + hidden + "@" + u.Host
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(u.Path, "/"), "/") {
		if looksSecret(part) {
			part = hidden
		}
		out += "/" + part
	}
	out = strings.TrimSuffix(out, "/")
	if u.RawQuery != "" {
		out += "?" + hidden
	}
	return strings.TrimSuffix(before, scheme) + out
}

// ShownURL is an address for a preview, without user, query and fragment.
func ShownURL(s string) string {
	if !strings.Contains(s, "://") {
		return ShownValue(s)
	}
	return shownURL(s)
}
