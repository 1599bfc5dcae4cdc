package main

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/artifacts"
	"github.com/mcp-gate/mcp-gate/config"
)

// shortest is what is hidden at least: a shorter value is as good as a word.
const shortest = 6

// discreet returns what a model is told of a server's failure. A server's last
// words, or its command, may hold what the owner configured: the values of its
// environment, headers and variables. Those, and what looks like a secret, are
// taken out; the person finds them in the log.
func (e *engine) discreet(text string) string {
	cfg := e.cfg
	if now := e.reading.Load(); now != nil {
		cfg = now.cfg
	}
	var pairs []string
	for _, value := range privateValues(cfg.Servers) {
		pairs = append(pairs, value, "[hidden]")
	}
	text, _ = artifacts.Redact(strings.NewReplacer(pairs...).Replace(text))
	return text
}

// privateValues are the longest first, since one may hold another. Folders are
// none: they are needed to understand a failure.
func privateValues(servers []config.Server) []string {
	var all []string
	add := func(value string) {
		if len(value) >= shortest && !filepath.IsAbs(value) {
			all = append(all, value)
		}
	}
	for _, s := range servers {
		for _, values := range []map[string]string{s.Launch.Env, s.Launch.Headers} {
			for _, value := range values {
				add(value)
				for _, part := range strings.Fields(value) { // Bearer TOKEN
					add(part)
				}
			}
		}
		add(filledIn(s.Written.Command, s.Launch.Command))
		add(filledIn(s.Written.Cwd, s.Launch.Cwd))
		add(filledIn(s.Written.URL, s.Launch.URL))
		for i := range min(len(s.Written.Args), len(s.Launch.Args)) {
			add(filledIn(s.Written.Args[i], s.Launch.Args[i]))
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(all)
}

// filledIn is the part of a text that its variables brought in: what is left
// without the beginning and the end that were written so.
func filledIn(written, text string) string {
	if written == text {
		return ""
	}
	before, _, _ := strings.Cut(written, "${")
	text = strings.TrimPrefix(text, before)
	return strings.TrimSuffix(text, written[strings.LastIndexByte(written, '}')+1:])
}
