package catalog

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPurpose(t *testing.T) {
	for _, tt := range []struct{ name, description, want string }{
		{"a", "Sends a mail.", "Sends a mail"},
		{"a", "Sends a mail. Ask first.", "Sends a mail"},
		{"a", "Finds files, e.g. pictures, i.e. what is seen. Fast.", "Finds files, e.g. pictures, i.e. what is seen"},
		{"a", "Reads version 1.2 of a page! Now.", "Reads version 1.2 of a page!"},
		{"a", "Does it work? It does.", "Does it work?"},
		{"get_page", "Notion | Retrieve a page\nError Responses:\n400: Bad request", "Retrieve a page"},
		{"get_page", "Retrieve a page\n\nArgs:\n  id: its id", "Retrieve a page"},
		{"get_page", "Retrieve a page of\nmany\n- and more", "Retrieve a page of many"},
		{"get_page", "get_page: Retrieve a page", "Retrieve a page"},
		{"get_page", "Deprecated: retrieve a page", "Deprecated: retrieve a page"},
		{"get_page", "This tool retrieves a page", "Retrieves a page"},
		{"get_page", "This tool is used to retrieve a page", "Retrieve a page"},
		{"get_page", "Use this tool to retrieve a page", "Retrieve a page"},
		{"get_page", "A tool that retrieves a page", "Retrieves a page"},
		{"get_page", "This tool", "This tool"},
		{"get_page", "Tool calls of a page", "Tool calls of a page"},
		{"get_page", "\n⚠️ **Retrieve** a page", "Retrieve a page"},
		{"get_page", "## Page\nRetrieves it", "Page Retrieves it"},
		{"get_page", "  \n ", "T"},
		{"get_page", "查询天气。返回结果", "查询天气"},
	} {
		definition, _ := json.Marshal(map[string]string{"name": tt.name, "description": tt.description, "title": "T"})
		if got := defined(t, "notion", string(definition)).Purpose(160); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.description, got, tt.want)
		}
	}
}

func TestPurposeIsCutAtAWord(t *testing.T) {
	tool := defined(t, "s", `{"name":"n","description":"Sends a mail to all `+strings.Repeat("people ", 1000)+`"}`)
	for n, want := range map[int]string{15: "Sends a mail…", 17: "Sends a mail…", 18: "Sends a mail to…", 5: "Se…"} {
		if got := tool.Purpose(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
