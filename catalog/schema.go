package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A FitError says in which way arguments do not fit a tool's schema.
type FitError struct {
	Tool ToolID
	Err  error
}

func (e *FitError) Error() string {
	return fmt.Sprintf("the arguments do not fit the schema of %v: %v", e.Tool, e.Err)
}
func (e *FitError) Unwrap() error { return e.Err }

// knownDialects are the schema dialects that can be checked here; MCP's own
// default where a schema names none is 2020-12.
var knownDialects = []string{"json-schema.org/draft/2020-12/", "json-schema.org/draft/2019-09/", "json-schema.org/draft-07/", "json-schema.org/draft-06/", "json-schema.org/draft-04/"}

// errRemote is what a reference out of the schema gets: nothing is fetched.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

// Fits checks arguments against the tool's input schema and returns a
// [*FitError] that names the first few places that do not fit. A schema that
// is absent, is of a dialect not known here, is longer than what is scanned, or
// cannot be compiled checks nothing: what a server means by it, only the server
// can say.
func (t Tool) Fits(args json.RawMessage) error {
	if t.InputSchema == nil || len(t.InputSchema) > mostScanned || !dialectIsKnown(t.InputSchema) {
		return nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(t.InputSchema))
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	const here = "tool:input"
	if err := c.AddResource(here, doc); err != nil {
		return nil
	}
	schema, err := c.Compile(here)
	if err != nil {
		return nil
	}
	if args == nil {
		args = json.RawMessage("{}")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return &FitError{t.ID, err}
	}
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(value); errors.As(err, &invalid) {
		return &FitError{t.ID, errors.New(places(invalid))}
	}
	return nil
}

func dialectIsKnown(schema json.RawMessage) bool {
	raw, ok, err := strictjson.Get(schema, "$schema")
	if err != nil || !ok {
		return err == nil
	}
	for _, d := range knownDialects {
		if strings.Contains(text(raw), d) || strings.HasSuffix(d, "/") && strings.Contains(text(raw), strings.TrimSuffix(d, "/")) {
			return true
		}
	}
	return false
}

// places lists the leaves of a validation error, a few of them, in order.
func places(e *jsonschema.ValidationError) string {
	var lines []string
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, c := range e.Causes {
			walk(c)
		}
		if len(e.Causes) == 0 && len(lines) < 4 {
			line := e.Error()
			line = strings.TrimPrefix(line, "jsonschema validation failed with 'tool:input#'\n- ")
			lines = append(lines, strings.ReplaceAll(line, "\n", " "))
		}
	}
	walk(e)
	return strings.Join(lines, "; ")
}
