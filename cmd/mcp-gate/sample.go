package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/internal/sample"
	"github.com/spf13/cobra"
)

func (a *app) sampleCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:     "sample " + strings.Join(sample.Names(), "|"),
		Example: "  mcp-gate sample issues --dir issues",
		Short:   "Be one of the demonstration's MCP servers",
		Long: `Be a small MCP server with real state in a folder, over stdio: what mcp-gate try
puts behind the gate. The folder is filled with a small project when it is empty.`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: sample.Names(),
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(sample.Names(), args[0]) {
				return usage(fmt.Errorf("unknown sample %q: want one of %s", args[0], strings.Join(sample.Names(), ", ")))
			}
			if dir == "" {
				return usage(fmt.Errorf("sample %s needs --dir DIR, the folder for its state", args[0]))
			}
			return sample.Run(c.Context(), args[0], dir, a.stdin, a.stdout, a.logger(config.Default().Log, true))
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder for the server's state")
	return c
}
