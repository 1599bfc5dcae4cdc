package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// everyCommand calls f with each command that does something by itself, and with each
// group of commands.
func everyCommand(c *cobra.Command, f func(c *cobra.Command, path []string)) {
	f(c, strings.Fields(c.CommandPath())[1:])
	for _, sub := range c.Commands() {
		everyCommand(sub, f)
	}
}

func commandTree() *cobra.Command {
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, env: os.LookupEnv}
	return a.command()
}

var quoted = regexp.MustCompile(`'[^']*'`)

// words are those of an example, as a shell would take them apart.
func words(line string) []string {
	line = quoted.ReplaceAllStringFunc(line, func(s string) string { return strings.ReplaceAll(strings.Trim(s, "'"), " ", "\x00") })
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " < ")
	all := strings.Fields(line)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "\x00", " ")
	}
	return all
}

func TestEveryCommandSaysWhatItIsForAndHowToUseIt(t *testing.T) {
	everyCommand(commandTree(), func(c *cobra.Command, path []string) {
		if c.Short == "" || strings.ContainsAny(c.Short, "\n") || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: want one line without a full stop, have %q", c.CommandPath(), c.Short)
		}
		if c.HasSubCommands() || c.Name() == "help" || len(path) > 0 && path[0] == "completion" {
			return // what is in it has the examples
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			said := words(strings.TrimSpace(line))
			named, rest, err := commandTree().Find(said[1:])
			if err != nil || named.CommandPath() != c.CommandPath() {
				t.Errorf("the example %q of %s is not of this command", line, c.CommandPath())
				continue
			}
			if err := named.ParseFlags(rest); err != nil {
				t.Errorf("%s: %v", strings.TrimSpace(line), err)
			} else if err := named.ValidateArgs(named.Flags().Args()); err != nil {
				t.Errorf("%s: %v", strings.TrimSpace(line), err)
			}
		}
	})
}

// A wrong flag, a wrong word after a group and an argument too many are faults of usage
// for every command, with and without --json.
func TestEveryCommandRefusesWhatItDoesNotKnow(t *testing.T) {
	everyCommand(commandTree(), func(c *cobra.Command, path []string) {
		wrong := [][]string{append(path[:len(path):len(path)], "--nosuch")}
		if c.HasSubCommands() {
			wrong = append(wrong, append(path[:len(path):len(path)], "nosuch"))
		} else if c.ValidateArgs([]string{"one", "two", "three"}) != nil {
			wrong = append(wrong, append(path[:len(path):len(path)], "one", "two", "three"))
		}
		for _, args := range wrong {
			said := strings.Join(args, " ")
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != exitUsage || stdout.Len() > 0 ||
				!strings.HasPrefix(stderr.String(), "mcp-gate: ") || !strings.Contains(stderr.String(), "--help") && path[0] != "help" || strings.Count(stderr.String(), "\n") != 1 {
				t.Errorf("mcp-gate %s: exit %d, printed %q and %q", said, code, stdout.String(), stderr.String())
			}
			stdout.Reset()
			stderr.Reset()
			code := run(t.Context(), append(args, "--json"), strings.NewReader(""), &stdout, &stderr)
			var doc struct {
				Error string
				Exit  int
			}
			if err := json.Unmarshal(stderr.Bytes(), &doc); err != nil || code != exitUsage || doc.Exit != code || doc.Error == "" || stdout.Len() > 0 {
				t.Errorf("mcp-gate %s --json: exit %d, printed %q and %q (%v)", said, code, stdout.String(), stderr.String(), err)
			}
		}
	})
}
