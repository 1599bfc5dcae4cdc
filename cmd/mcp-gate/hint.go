package main

import (
	"errors"
	"io/fs"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/upstream"
)

// hint turns the facts of an error into the next step for a person; "" where
// the error says it itself.
func hint(err error) string {
	var ambiguous *catalog.AmbiguousError
	var up *upstream.Error
	switch {
	case errors.As(err, &ambiguous):
		return "give the name as server/tool"
	case errors.As(err, &up) && up.Hint != "":
		return up.Hint
	case errors.Is(err, fs.ErrPermission):
		return "look who owns the file and whether you may read it"
	}
	return ""
}
