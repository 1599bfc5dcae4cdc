package main

import (
	"testing"

	"github.com/mcp-gate/mcp-gate/config"
)

func TestAModelIsToldNoConfiguredValue(t *testing.T) {
	e := &engine{cfg: config.Config{Servers: []config.Server{{
		Written: config.Endpoint{Command: "/opt/${KEY}/run", Args: []string{"--as=${KEY}", "plain-argument"}},
		Launch: config.Endpoint{
			Command: "/opt/s3same-open/run", Args: []string{"--as=s3same-open", "plain-argument"},
			Env:     map[string]string{"TOKEN": "zq9-configured", "HOME": "/home/me/work", "DEBUG": "1"},
			Headers: map[string]string{"Authorization": "Bearer hdr-token-1"},
		},
	}}}}
	for said, want := range map[string]string{
		`bad token "zq9-configured"`:            `bad token "[hidden]"`,
		`command "/opt/s3same-open/run" is not`: `command "/opt/[hidden]/run" is not`,
		`401 for Bearer hdr-token-1`:            `401 for [hidden]`,
		`no hdr-token-1 here`:                   `no [hidden] here`,
		`plain-argument 1 in /home/me/work`:     `plain-argument 1 in /home/me/work`,
	} {
		if got := e.discreet(said); got != want {
			t.Errorf("%s becomes %s, want %s", said, got, want)
		}
	}
}
