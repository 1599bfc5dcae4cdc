package upstream

import (
	"errors"
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

// Why there is no token is said by who gives them: a person need not be able to help.
func TestASignInIsWantedOnlyByAServer(t *testing.T) {
	for want, err := range map[string]error{
		"server a wants a sign-in":                             nil,
		"server a wants a sign-in: HTTP 401 Unauthorized":      &ChallengeError{},
		"server a cannot be asked: the token endpoint is away": errors.New("the token endpoint is away"),
	} {
		if got := (&Error{Server: "a", Kind: Unauthorized, Err: err}).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
