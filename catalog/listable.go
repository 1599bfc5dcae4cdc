package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Listable says why a definition may not stand in a list beside others; nil
// where it may. Its output schema is another matter: [Listed]. Clients check a list as a whole, and model providers a request as
// a whole: one definition that they cannot read costs all the others. A dialect
// or keyword that is not known here harms nobody. What it says is kept in packs:
// another rule is another packHeader.
func Listable(definition json.RawMessage) error {
	var t struct {
		Title       *string         `json:"title"`
		Description *string         `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
		Annotations *struct {
			Title       *string `json:"title"`
			ReadOnly    *bool   `json:"readOnlyHint"`
			Destructive *bool   `json:"destructiveHint"`
			Idempotent  *bool   `json:"idempotentHint"`
			OpenWorld   *bool   `json:"openWorldHint"`
		} `json:"annotations"`
		Icons []struct {
			Src string `json:"src"`
		} `json:"icons"`
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(definition, &members) != nil {
		return errors.New("it is no object")
	}
	for _, name := range []string{"title", "description", "inputSchema", "annotations", "icons", "execution", "_meta"} {
		if string(members[name]) == "null" { // clients read past members they do not know, whatever is in them
			return fmt.Errorf("its %s is null", name)
		}
	}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(definition, &t); errors.As(err, &wrong) {
		return fmt.Errorf("its %s is of the wrong type", wrong.Field)
	}
	if t.InputSchema == nil {
		return errors.New("it has no inputSchema")
	}
	if err := listableSchema(t.InputSchema); err != nil {
		return fmt.Errorf("its inputSchema %w", err)
	}
	return nil
}

// Listed returns a definition as it may stand in a list beside others: without an
// output schema that clients cannot read, since no tool needs one to be called.
// A fault deeper in it costs no list and stays.
func Listed(definition json.RawMessage) json.RawMessage {
	if !bytes.Contains(definition, []byte("outputSchema")) && !bytes.Contains(definition, []byte(`\u`)) {
		return definition // as most: without that name, in whatever spelling
	}
	output, ok, err := strictjson.Get(definition, "outputSchema")
	if err != nil || !ok {
		return definition
	}
	var root struct {
		Type       json.RawMessage            `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	good := json.Unmarshal(output, &root) == nil && string(root.Type) == `"object"`
	for _, property := range root.Properties {
		good = good && property[0] == '{'
	}
	if good {
		return definition
	}
	if definition, err = strictjson.Delete(definition, "outputSchema"); err != nil {
		panic(err) // it was read just now
	}
	return definition
}

// Listable is [Listable] of the tool's definition, whatever it is called.
func (t Tool) Listable() error {
	if t.unlisted == nil {
		return Listable(t.Raw)
	}
	if *t.unlisted == "" {
		return nil
	}
	return errors.New(*t.unlisted)
}

func listableSchema(raw json.RawMessage) error {
	var schema map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // of any size
	if err := d.Decode(&schema); err != nil {
		return errors.New("is no object")
	}
	if schema["type"] != "object" {
		return errors.New(`does not say "type": "object"`)
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, p := range properties {
			if _, ok := p.(map[string]any); !ok {
				return fmt.Errorf("has a property %.64q that is no object", name)
			}
		}
	}
	if dialect, ok := schema["$schema"].(string); ok && !strings.Contains(dialect, "json-schema.org/") {
		return nil // what is right in it is not known here
	}
	w := schemaWalk{root: schema}
	w.schema(schema)
	return w.fault
}

type schemaWalk struct {
	root  map[string]any
	fault error
}

var schemaTypes = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

// schema looks at a schema and those in it.
func (w *schemaWalk) schema(v any) {
	s, ok := v.(map[string]any)
	if !ok || w.fault != nil {
		return
	}
	if _, other := s["$id"]; other && len(s) != len(w.root) {
		return // what its references are relative to is its own
	}
	if ref, ok := s["$ref"].(string); ok && (ref == "#" || strings.HasPrefix(ref, "#/")) && !w.has(strings.TrimPrefix(ref, "#")) {
		w.fault = fmt.Errorf("refers to %.64q, which is not in it", ref)
	}
	if kind, ok := s["type"]; ok && !isType(kind) {
		w.fault = fmt.Errorf("has the type %.64q, which is none", fmt.Sprint(kind))
	}
	for keyword, inner := range s {
		switch keyword {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			named, ok := inner.(map[string]any)
			if !ok {
				w.fault = fmt.Errorf("has %s that are no object", keyword)
			}
			for _, one := range named {
				w.schema(one)
			}
		case "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "additionalItems":
			w.schema(inner)
			w.list(inner)
		case "allOf", "anyOf", "oneOf", "prefixItems":
			w.list(inner)
		case "required", "enum":
			list, ok := inner.([]any)
			for _, one := range list {
				_, text := one.(string)
				ok = ok && (text || keyword == "enum")
			}
			if !ok {
				w.fault = fmt.Errorf("has %.64q for %s, which is no list", fmt.Sprint(inner), keyword)
			}
		case "pattern":
			if _, ok := inner.(string); !ok {
				w.fault = fmt.Errorf("has %.64q for a pattern", fmt.Sprint(inner))
			}
		case "minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
			if _, ok := inner.(json.Number); !ok {
				w.fault = fmt.Errorf("has %.64q for %s, which is no number", fmt.Sprint(inner), keyword)
			}
		}
	}
}

func (w *schemaWalk) list(v any) {
	list, _ := v.([]any)
	for _, one := range list {
		w.schema(one)
	}
}

func isType(kind any) bool {
	if word, ok := kind.(string); ok {
		return slices.Contains(schemaTypes, word)
	}
	list, ok := kind.([]any)
	return ok && len(list) > 0 && !slices.ContainsFunc(list, func(k any) bool {
		word, ok := k.(string)
		return !ok || !slices.Contains(schemaTypes, word)
	})
}

// has reports whether a JSON pointer leads somewhere in the schema.
func (w *schemaWalk) has(pointer string) bool {
	var at any = w.root
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			return true
		}
		token = unescaped.Replace(token)
		switch v := at.(type) {
		case map[string]any:
			next, ok := v[token]
			if !ok {
				return false
			}
			at = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return false
			}
			at = v[i]
		default:
			return false
		}
	}
	return true
}

var unescaped = strings.NewReplacer("~1", "/", "~0", "~", "%25", "%", "%22", `"`, "%20", " ")
