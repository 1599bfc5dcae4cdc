package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-gate/mcp-gate/config"
)

func TestNamesFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "server.js")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		launch config.Endpoint
		want   bool
	}{
		"none":               {config.Endpoint{Args: []string{file, "-v"}}, false},
		"one":                {config.Endpoint{Args: []string{file, dir}}, true},
		"one in a flag":      {config.Endpoint{Args: []string{"--root=" + dir}}, true},
		"its own":            {config.Endpoint{Args: []string{dir + "/"}, Cwd: dir}, false},
		"another":            {config.Endpoint{Args: []string{dir}, Cwd: filepath.Dir(dir)}, true},
		"its own, relative":  {config.Endpoint{Args: []string{"."}}, false},
		"a relative one":     {config.Endpoint{Args: []string{"--dir", filepath.Base(dir)}, Cwd: filepath.Dir(dir)}, true},
		"one of several":     {config.Endpoint{Args: []string{"--roots=gone," + dir}}, true},
		"one of a list":      {config.Endpoint{Env: map[string]string{"ALLOWED": "gone" + string(os.PathListSeparator) + dir}}, true},
		"where programs are": {config.Endpoint{Env: map[string]string{"PATH": dir}}, false},
		"one that is not":    {config.Endpoint{Args: []string{filepath.Join(dir, "gone")}}, false},
	} {
		if got := namesFolder(tt.launch); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
