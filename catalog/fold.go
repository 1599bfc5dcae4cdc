package catalog

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Unfolded returns an error for an argument that differs from one of the
// tool's own by case alone. Servers whose decoder folds case would take it for
// that one, which no rule and no person has seen. Args must be strict JSON.
func (t Tool) Unfolded(args json.RawMessage) error {
	if len(t.Params) == 0 || len(args) == 0 || args[0] != '{' {
		return nil
	}
	for m := range strictjson.Walk(args) {
		if _, own := slices.BinarySearch(t.Params, m.Name); own {
			continue
		}
		if like, ok := strictjson.Folded(m.Name, t.Params...); ok {
			return &FitError{t.ID, fmt.Errorf("%q is spelled like %q but is not it", m.Name, like)}
		}
	}
	return nil
}
