package config

import (
	"strings"
	"testing"
)

func TestExpandVariables(t *testing.T) {
	env := fakeEnv("A=1", "EMPTY=", "LOOP=${A}", "HOME=/home/p")
	for _, tt := range []struct{ in, want string }{
		{"", ""}, {"plain", "plain"}, {"$", "$"}, {"$$", "$$"}, {"$A", "$A"}, {"%A%", "%A%"}, {"a$5", "a$5"},
		{"${A}", "1"}, {"x${A}y${A}z", "x1y1z"}, {"${env:A}", "1"}, {"${EMPTY}", ""},
		{"${A:-d}", "1"}, {"${EMPTY:-d}", "d"}, {"${NO:-d}", "d"}, {"${NO:-}", ""}, {"${env:NO:-d}", "d"}, {"${NO:-a:-b c}", "a:-b c"},
		{"${LOOP}", "${A}"}, // a value is not looked at again
		{"$${A}", "${A}"}, {"$${", "${"}, {"a$${b}${A}", "a${b}1"}, {"$$${A}", "$${A}"},
		{"${userHome}/x", "/home/p/x"}, {"{A}", "{A}"}, {"}", "}"},
	} {
		if got, err := expandVariables(tt.in, env); err != nil || got != tt.want {
			t.Errorf("%q: got %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{"${NO}", "variable NO is not set: set it where the gate is started, or write ${NO:-default}"},
		{"${env:NO}", "variable NO is not set"},
		{"${", "is not closed"}, {"x${A", "is not closed"},
		{"${}", "is not a reference"}, {"${ A }", "is not a reference"}, {"${1A}", "is not a reference"}, {"${A-d}", "is not a reference"},
		{"${NO:-${A}}", "is not a reference"}, {"${A:?msg}", "is not a reference"}, {"${user_config.x}", "is not a reference"},
		{"${input:tok}", "${input:tok} is filled in by another program"}, {"${command:x}", "another program"}, {"${secret:gh/T}", "another program"},
		{"${workspaceFolder}", "${workspaceFolder} is known to an editor only"}, {"${pathSeparator}", "an editor only"},
	} {
		if got, err := expandVariables(tt.in, env); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %q, %v, want an error with %q", tt.in, got, err, tt.want)
		}
	}
}

// As in a shell, a variable that is set and empty is one; but hardly anybody means it.
func TestAnEmptyVariableIsSaid(t *testing.T) {
	c, notes, err := Parse("c.jsonc", []byte(`{"servers":{"a":{"url":"http://h","headers":{"A":"Bearer ${EMPTY}","B":"${EMPTY:-}","C":"$${EMPTY}","D":"${env:FULL}"}}}}`), fakeEnv("EMPTY=", "FULL=1"))
	if err != nil || len(c.Servers) != 1 || c.Servers[0].Launch.Headers["A"] != "Bearer " {
		t.Fatalf("got %+v, %v", c.Servers, err)
	}
	var said []string
	for _, n := range notes {
		said = append(said, n.String())
	}
	if len(said) != 1 || !strings.Contains(said[0], "servers.a.headers.A: variable EMPTY is set and empty: set it, or write ${EMPTY:-}") {
		t.Errorf("got the notes %q", said)
	}
}

func TestTilde(t *testing.T) {
	data := `{"servers":{"a":{"command":"~/bin/x","args":["~","~/data","a~b","--x=~/y","~bob/z","${T}","~${S}"],"cwd":"~","env":{"P":"~/p"}}}}`
	env := []string{"HOME=/home/p q", "T=~/t", "S=/s"}
	s := mustParse(t, "c.jsonc", data, env...).Servers[0]
	want := "/home/p q/bin/x|/home/p q|/home/p q/data|a~b|--x=~/y|~bob/z|~/t|~/s|/home/p q|~/p"
	got := strings.Join(append(append([]string{s.Launch.Command}, s.Launch.Args...), s.Launch.Cwd, s.Launch.Env["P"]), "|")
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if s.Written.Command != "~/bin/x" || s.Written.Args[5] != "${T}" || s.Written.Cwd != "~" {
		t.Errorf("what was written is not kept: %+v", s.Written)
	}
	s = mustParse(t, "c.jsonc", data, "T=1", "S=2").Servers[0]
	if s.Launch.Command != "~/bin/x" || s.Launch.Cwd != "~" {
		t.Errorf("got %+v, want the tilde left where there is no HOME", s.Launch)
	}
}

func TestValuesOfVariablesAreInNoError(t *testing.T) {
	const secret = "hunter2"
	c, notes, err := Parse("c.jsonc", []byte(`{"servers":{
		"url": {"url": "${S}"}, "user": {"url": "http://${S}@h"}, "header": {"url": "http://h", "headers": {"A": "${S}\n"}},
		"plain": {"url": "`+secret+`"}, "env": {"command": "x", "env": {"A": "${S}", "B": "${NO}", "C": 1}}, "nul": {"command": "x", "env": {"A": "`+secret+`\u0000"}}
	}}`), fakeEnv("S="+secret))
	if err != nil || len(c.Refused) != 6 {
		t.Fatalf("got %v and %d refused entries, want 6", err, len(c.Refused))
	}
	for _, r := range c.Refused {
		if strings.Contains(r.Errors.Error(), secret) {
			t.Errorf("%s", r.Errors)
		}
	}
	for _, n := range notes {
		if strings.Contains(n.String(), secret) {
			t.Errorf("%s", n)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"command", "args", "env", "tools", "least_level", "on_egress"}
	for word, want := range map[string]string{
		"comand": "command", "commnad": "command", "Command": "command", "leastLevel": "least_level", "arg": "args", "tols": "tools",
		"on-egress": "on_egress", "envs": "env", "zzz": "", "": "", "unrelated": "", strings.Repeat("command", 20): "",
	} {
		if got := nearest(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"servers": {"a": {"command": "x", "args": ["${A}", "~"], "env": {"B": "$${"}}}}`,
		"servers:\n  a: {command: x}\n", "a: |\n  b\n", "- [a, {b: c}]\n", "? a\n: b\n", "\ufeff{}", "{/*", "[[[[", "a: &x 1", `{"mcpServers": [{"name": "a"}]}`,
		`{"policy": {"rules": [{"do": "deny", "args": {"/a": {"min": 1}}}]}}`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, yaml bool) {
		if len(data) > 1<<14 {
			return
		}
		name := "c.jsonc"
		if yaml {
			name = "c.yaml"
		}
		env := fakeEnv("HOME=/h", "A=1")
		c, notes, err := Parse(name, data, env)
		list, _ := err.(ErrorList)
		if err != nil && (len(list) == 0 || len(list) > maxFaults+1) {
			t.Fatalf("got %d faults from %q", len(list), data)
		}
		for _, r := range c.Refused {
			if len(r.Errors) == 0 {
				t.Fatalf("%s is refused for no reason", r.Key)
			}
			list = append(list, r.Errors...)
		}
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
		for _, e := range list {
			if strings.ContainsAny(e.Text, "\n\r") || e.Pos.Line > lines+1 {
				t.Fatalf("a fault of more than one line, or outside of the file: %+v", e)
			}
		}
		for _, s := range c.Servers {
			if (s.Launch.Command == "") == (s.Launch.URL == "") || s.Alias == "" || s.Transport == 0 {
				t.Fatalf("a server that cannot be started: %+v", s)
			}
		}
		again, notesAgain, errAgain := Parse(name, data, env)
		if dump(c, notes, err) != dump(again, notesAgain, errAgain) {
			t.Fatal("the same bytes gave another result")
		}
	})
}

func TestSecretsAndSignInAreFilledIn(t *testing.T) {
	env := fakeEnv("secret:tok-1=kept", "CS=client secret")
	c, _, err := Parse("c.jsonc", []byte(`{"servers": {
		"a": {"command": "x", "env": {"T": "${secret:tok-1}"}},
		"b": {"command": "x", "env": {"T": "${secret:gone}"}},
		"c": {"url": "https://c.test/mcp", "auth": {"client_id": "gate", "client_secret": "${CS}", "scopes": ["r"]}},
		"d": {"url": "https://d.test/mcp", "auth": {"client_secret": "${NOT_SET}"}}
	}}`), env)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := c.Server("a")
	if a.Launch.Env["T"] != "kept" || a.Written.Env["T"] != "${secret:tok-1}" {
		t.Errorf("got %+v", a)
	}
	if s, _ := c.Server("c"); s.Auth == nil || s.Auth.ClientID != "gate" || s.Auth.ClientSecret != "client secret" || len(s.Auth.Scopes) != 1 {
		t.Errorf("got %+v", s.Auth)
	}
	if len(c.Refused) != 2 || !strings.Contains(c.Refused[0].Errors.Error(), "secret gone is not kept here") || !strings.Contains(c.Refused[1].Errors.Error(), "NOT_SET") {
		t.Errorf("got %v", c.Refused)
	}
}
