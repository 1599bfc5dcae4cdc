// Command late is an MCP server over stdio that starts as late as a file says,
// or not at all: a sample server, or the fake one whose definitions are a file.
//
// It stands behind the gate in the tests of e2e and is of no use elsewhere.
// What it waits for is in a file and not on its command line, since another
// command line would be another server.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/fakemcp"
	"github.com/mcp-gate/mcp-gate/internal/sample"
)

func main() {
	when := flag.String("when", "", "file with how long to wait first, or the word never; without one it starts at once")
	starts := flag.String("starts", "", "file that gets a line once it begins to serve")
	kind := flag.String("sample", "", "serve this sample server; without it the fake one, with the arguments that are left")
	dir := flag.String("dir", "", "folder for the sample server's state")
	flag.Parse()
	in := bufio.NewReader(os.Stdin)
	if err := wait(in, *when); err != nil {
		if errors.Is(err, io.EOF) {
			return
		}
		fmt.Fprintln(os.Stderr, "late:", err)
		os.Exit(1)
	}
	if err := note(*starts); err != nil {
		fmt.Fprintln(os.Stderr, "late:", err)
		os.Exit(1)
	}
	if *kind == "" {
		os.Exit(fakemcp.Main(flag.Args(), in, os.Stdout, os.Stderr))
	}
	if err := sample.Run(context.Background(), *kind, *dir, in, os.Stdout, slog.New(slog.DiscardHandler)); err != nil {
		fmt.Fprintln(os.Stderr, "late:", err)
		os.Exit(1)
	}
}

// wait returns once it is time, or with io.EOF once nobody is there any more.
func wait(in *bufio.Reader, file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(text)) == "never" {
		_, _ = io.Copy(io.Discard, in) // however it ends, it has ended
		return io.EOF
	}
	d, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	first := make(chan error, 1)
	go func() {
		_, err := in.Peek(1)
		first <- err
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-first:
		if err == nil {
			<-timer.C
		}
		return err
	case <-timer.C:
		return <-first // in has one reader at a time
	}
}

func note(file string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, os.Getpid())
	return errors.Join(err, f.Close())
}
