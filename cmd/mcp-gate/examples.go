package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples gives every command that has no examples of its own one that can be
// copied. A test reads their words and flags.
func examples(root *cobra.Command) {
	for _, example := range []string{
		"accept files/write_file",
		"approver enroll --label laptop",
		"approver list",
		"approver remove laptop",
		"artifacts ls",
		"artifacts rm a_k3v",
		"audit tail --calls --follow",
		"audit verify",
		"auth login linear",
		"auth logout linear",
		"auth status",
		"engagement compose < engagements.jsonl",
		"engagement derive < readings.jsonl",
		"engagement meet < engagements.jsonl",
		"grants ls --all",
		"grants revoke g_k3v",
		"grants simulate --tools issues/add_comment --calls 20",
		"hook session-start",
		"hook user-prompt-submit < hook-input.json",
		"inbox approve t_k3v",
		"inbox deny t_k3v --note 'use the test folder'",
		"inbox ls --state all",
		"inbox run",
		"inbox settle t_k3v --done --note 'the issue is there'",
		"inbox show t_k3v",
		"inbox stats --within 24h",
		"policy check --offline",
		"policy replay --config stricter.jsonc --last 500",
		"prefix --diff prefix-of-yesterday.txt",
		"read 'delete the old branches'",
		"review ls",
		"review show k3v",
		"review undo k3v",
		"sample issues --dir issues",
		"schema > config.schema.json",
		"serve --client cursor --profile work",
		"status --json",
		"token add ci --scope read",
		"token ls",
		"token rm k3v2p7aq",
		"tools classify --catalog definitions.jsonl",
		"tools ls issues",
		"tools scan --catalog definitions.jsonl",
		"tools show issues/add_comment",
		"try --yes",
		"version --json",
	} {
		if c, _, err := root.Find(strings.Fields(example)); err == nil && c != root && c.Example == "" {
			c.Example = "  mcp-gate " + example
		}
	}
}
