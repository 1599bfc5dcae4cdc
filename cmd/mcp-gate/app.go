package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/lmittmann/tint"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/signin"
	"golang.org/x/term"
)

// app is what every subcommand shares.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            config.Env
	interrupted    <-chan struct{} // closed when a signal asks the command to end
	environ        []string

	homeFlag string
	json     bool
	logLevel string
	level    slog.LevelVar // of every logger
	began    stamps        // of what [app.load] read

	needed atomic.Pointer[signin.NeededError] // the first server that wanted a person to sign in
}

// home finds the home without touching it.
func (a *app) home() (config.Home, error) {
	h, err := config.FindHome(a.homeFlag, a.env)
	if err != nil {
		return h, usage(err)
	}
	return h, nil
}

// load reads the configuration of the home.
func (a *app) load() (config.Home, config.Config, []config.Note, error) {
	h, err := a.home()
	if err != nil {
		return h, config.Config{}, nil, err
	}
	a.began = stampsOf(h)
	cfg, notes, err := h.Load(a.env)
	if err != nil {
		return h, cfg, notes, usage(err)
	}
	return h, cfg, notes, nil
}

// logger writes to standard error only: text for a person at a terminal, JSON
// lines otherwise. Only serve says what goes well; a command that ends by itself
// says the rest in lines for a person, whatever standard error is.
func (a *app) logger(cfg config.Log, serving bool) *slog.Logger {
	a.setLevel(cfg, serving)
	level := &a.level
	if cfg.Format == config.LogText || cfg.Format != config.LogJSON && (!serving || isTerminal(a.stderr)) {
		_, plain := a.env("NO_COLOR")
		o := &tint.Options{Level: level, NoColor: plain || !isTerminal(a.stderr)}
		if !serving {
			o.ReplaceAttr = timeless
		}
		return slog.New(tint.NewTextHandler(a.stderr, o))
	}
	return slog.New(slog.NewJSONHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// setLevel has what is logged from now on bear the owner's level, or the one of
// the command line.
func (a *app) setLevel(cfg config.Log, serving bool) {
	word := cfg.Level.String()
	if !serving && cfg.Level == config.LogInfo {
		word = "warn"
	}
	if a.logLevel != "" {
		word = a.logLevel
	}
	if a.level.UnmarshalText([]byte(word)) != nil {
		a.level.Set(slog.LevelInfo)
	}
}

// serverLogger is the logger of the servers themselves. A command that ends by
// itself says once, in its own words, which of them do not work.
func (a *app) serverLogger(cfg config.Log, serving bool) *slog.Logger {
	if !serving && cfg.Level == config.LogInfo && a.logLevel == "" {
		return slog.New(slog.DiscardHandler)
	}
	return a.logger(cfg, serving)
}

// timeless takes the time off a line: it is now.
func timeless(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}

func (a *app) setLogLevel(word string) error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, word) {
		return errors.New("want one of debug, info, warn, error")
	}
	a.logLevel = word
	return nil
}

// callerName checks a name for who calls, which stands in the record and on
// cards beside the gate's own words.
func callerName(name string) error {
	if name == "" || len(name) > 128 || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return usage(fmt.Errorf("%.40q is no name for a caller: want 1 to 128 bytes that can be printed", name))
	}
	return nil
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// in is standard input with reads that end when the command is interrupted. A
// read of a terminal or a pipe cannot be called back, so it is left behind.
func (a *app) in() io.Reader { return interruptible{a.stdin, a.interrupted} }

type interruptible struct {
	io.Reader
	interrupted <-chan struct{}
}

func (i interruptible) Read(p []byte) (int, error) {
	var n int
	var err error
	buf, read := make([]byte, len(p)), make(chan struct{})
	go func() {
		n, err = i.Reader.Read(buf)
		close(read)
	}()
	select {
	case <-read:
		return copy(p, buf[:n]), err
	case <-i.interrupted:
		return 0, context.Canceled
	}
}

// shown is a foreign text for standard output: the very bytes for a program, and
// spelled out where they could steer a terminal.
func (a *app) shown(text string) string {
	if isTerminal(a.stdout) {
		return inbox.Display(text)
	}
	return text
}

// many is a number of things in words: 1 call, 2 calls.
func many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// print writes a document as indented JSON without escaping for HTML.
func (a *app) print(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.stdout.Write(b.Bytes())
	return err
}

// report prints an error for a person, each fault of a list on its line, and
// what to do next where that is known and the error does not say it itself. A nil error
// was already reported.
func report(w io.Writer, err error, try string) {
	var list config.ErrorList
	switch {
	case err == nil:
	case errors.As(err, &list):
		for _, e := range list {
			fmt.Fprintf(w, "mcp-gate: %s\n", inbox.DisplayLine(e.Error()))
		}
	default:
		fmt.Fprintf(w, "mcp-gate: %s\n", strings.ReplaceAll(inbox.Display(err.Error()), "\n", "\nmcp-gate: "))
	}
	if try != "" && (err == nil || !strings.Contains(err.Error(), try)) {
		fmt.Fprintf(w, "mcp-gate: try: %s\n", try)
	}
}

// reportJSON prints an error for a program, on one line; none where the document on
// standard output is all there is to say.
func reportJSON(w io.Writer, e *exitError, try string) {
	doc := struct {
		Error string `json:"error,omitempty"`
		Try   string `json:"try,omitempty"`
		Exit  int    `json:"exit"`
	}{Try: try, Exit: e.code}
	if e.err != nil {
		doc.Error = inbox.Display(e.err.Error())
	}
	if doc.Error == "" && try == "" {
		return
	}
	line, _ := json.Marshal(doc) // of strings and a number, which always can be
	fmt.Fprintf(w, "%s\n", line)
}
