package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/mcp-gate/mcp-gate/config"
	"github.com/spf13/cobra"
)

// maxInput bounds what is read from standard input as one document.
const maxInput = 64 << 20

func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err == nil && len(b) > maxInput {
		err = fmt.Errorf("standard input is over %d bytes", maxInput)
	}
	return b, err
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version",
		Example: "  mcp-gate version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.print(map[string]string{"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
			}
			_, err := fmt.Fprintf(a.stdout, "mcp-gate %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the configuration",
		Example: "  mcp-gate schema > config.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var doc any
			if err := json.Unmarshal(config.JSONSchema(), &doc); err != nil {
				return fmt.Errorf("the schema in this build is broken: %w", err)
			}
			_, err := fmt.Fprintf(a.stdout, "%s\n", config.JSONSchema())
			return err
		},
	}
}
