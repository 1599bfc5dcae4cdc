package config

import (
	"bytes"
	"encoding/json"
)

// A schema is one JSON Schema (draft 2020-12), built by the kinds.
type schema map[string]any

// SchemaID names the published schema. A file may give it as "$schema"; nothing
// is ever fetched.
const SchemaID = "https://raw.githubusercontent.com/mcp-gate/mcp-gate/main/config/schema.json"

// A schemaBook collects the definitions that objects share.
type schemaBook struct{ defs map[string]any }

// JSONSchema returns the schema of a configuration file, as JSON with two
// spaces of indent and a final newline. It is made of the same table that files
// are read with, and has the same bytes every time.
func JSONSchema() []byte {
	b := &schemaBook{defs: map[string]any{}}
	root := fileShape.schemaOf(b)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "mcp-gate configuration"
	root["$defs"] = b.defs
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		panic(err) // maps, slices, text and numbers always marshal
	}
	return out.Bytes()
}

func (o object[T]) schemaRef(b *schemaBook) schema {
	if o.name == "" {
		return o.schemaOf(b)
	}
	if _, known := b.defs[o.name]; !known {
		b.defs[o.name] = schema{} // ends the recursion of a shape that holds itself
		b.defs[o.name] = o.schemaOf(b)
	}
	return schema{"$ref": "#/$defs/" + o.name}
}

func (o object[T]) schemaOf(b *schemaBook) schema {
	properties := map[string]any{}
	var required []string
	for _, f := range o.fields {
		s := f.schema(b)
		s["description"] = f.doc
		properties[f.name] = s
		if f.required {
			required = append(required, f.name)
		}
	}
	for _, f := range o.foreign {
		properties[f.name] = schema{"description": "Not used by mcp-gate: " + f.why + ".", "deprecated": true}
	}
	s := schema{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	if required != nil {
		s["required"] = required
		s["type"] = "object"
	}
	if o.doc != "" {
		s["description"] = o.doc
	}
	return s
}
