package upstream

import (
	"strings"
	"testing"
)

func TestOnlyACallMayHaveRun(t *testing.T) {
	for method, want := range map[string]bool{"tools/call": true, "tools/list": false, "initialize": false, "resources/read": false, "": false} {
		e := &Error{Server: "a", Method: method, Kind: Lost, Sent: true}
		if got := strings.Contains(e.Error(), "may or may not have run"); got != want {
			t.Errorf("%q: %s", method, e.Error())
		}
	}
}
