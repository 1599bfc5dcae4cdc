package strictjson

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// Misfit says in plain words what encoding/json found wrong with a value, for
// people and models who know nothing of how it is kept here. Any other error is
// returned as it is.
func Misfit(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		takes := fmt.Sprintf("takes %s, not %s", wanted(wrong.Type), given(wrong.Value))
		if place := placeOf(wrong.Field); place != "" {
			takes = fmt.Sprintf("%q %s", place, takes)
		}
		return errors.New(takes)
	case strings.HasPrefix(err.Error(), "json: "):
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return err
}

// placeOf is the path to a member, without the names of embedded structs.
func placeOf(field string) string {
	var names []string
	for name := range strings.SplitSeq(field, ".") {
		if !strings.ContainsFunc(name[:min(len(name), 1)], unicode.IsUpper) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ".")
}

var textual = reflect.TypeFor[encoding.TextUnmarshaler]()

func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(textual) {
		return "a word"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a whole number"
}

func given(value string) string {
	if kind, literal, ok := strings.Cut(value, " "); ok && kind == "number" {
		return literal
	}
	switch value {
	case "bool":
		return "true or false"
	case "object", "array":
		return "an " + value
	}
	return "a " + value
}
