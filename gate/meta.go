package gate

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// The meta tools, as clients see them. These bytes are part of every client's
// cached prompt: a change of one is a change of the product.
//
//go:embed metatools.json
var metaFile []byte

// metaTools holds each meta tool's definition, in the order of the list.
var metaTools = mustMeta(metaFile)

type metaTool struct {
	name string
	raw  json.RawMessage
}

// mustMeta reads the embedded list. It panics on a file that is none, which
// the first test run of any build shows.
func mustMeta(file []byte) []metaTool {
	var raws []json.RawMessage
	if err := json.Unmarshal(file, &raws); err != nil {
		panic(fmt.Sprintf("gate/metatools.json: %v", err))
	}
	var tools []metaTool
	for _, raw := range raws {
		var compact bytes.Buffer
		name, _, err := strictjson.Get(raw, "name")
		if err != nil || json.Compact(&compact, raw) != nil {
			panic(fmt.Sprintf("gate/metatools.json: %s", raw))
		}
		var s string
		_ = json.Unmarshal(name, &s) // a name that is no string shows as a tool without one
		tools = append(tools, metaTool{s, compact.Bytes()})
	}
	return tools
}

func metaNames() []string {
	var names []string
	for _, t := range metaTools {
		names = append(names, t.name)
	}
	return names
}

func isMeta(name string) bool {
	for _, t := range metaTools {
		if t.name == name {
			return true
		}
	}
	return false
}
