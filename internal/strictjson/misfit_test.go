package strictjson

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

type Embedded struct {
	Bytes struct {
		From int64 `json:"from"`
	} `json:"bytes"`
	When time.Time `json:"when"`
}

func TestMisfitSpeaksOfTheValueAlone(t *testing.T) {
	for given, want := range map[string]string{
		`{"id":5}`:               `"id" takes a string, not a number`,
		`{"bytes":{"from":"x"}}`: `"bytes.from" takes a whole number, not a string`,
		`{"bytes":{"from":1.5}}`: `"bytes.from" takes a whole number, not 1.5`,
		`{"bytes":[]}`:           `"bytes" takes an object, not an array`,
		`{"list":{}}`:            `"list" takes an array, not an object`,
		`{"on":"yes"}`:           `"on" takes true or false, not a string`,
		`{"share":true}`:         `"share" takes a number, not true or false`,
		`[]`:                     `takes an object, not an array`,
		`{"id":"a"`:              `unexpected end of JSON input`,
	} {
		var into struct {
			ID    string   `json:"id"`
			List  []string `json:"list"`
			On    bool     `json:"on"`
			Share float64  `json:"share"`
			Embedded
		}
		if err := Misfit(json.Unmarshal([]byte(given), &into)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", given, err, want)
		}
	}
	other := errors.New("other")
	if Misfit(nil) != nil || !errors.Is(Misfit(other), other) {
		t.Error("another error is changed")
	}
}
