// Package jsonschema is github.com/santhosh-tekuri/jsonschema/v6 as it is
// published, under the LICENSE beside it (Apache-2.0), with one change, in
// compiler.go and draft.go: the schemas of schemas are compiled with the first
// compiler that somebody makes. The library does so when a program begins, which
// was a fifth of every start and half of every --help.
package jsonschema
