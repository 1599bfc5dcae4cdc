package gate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestFindToolsSaysWhatDoesNotFit(t *testing.T) {
	r := newRig(t, nil)
	r.gate.Offer("hub", raws(append([]string{`{"name":"search_files","description":"Search for files"}`}, definitions["hub"]...)))
	s := r.open(t, Identity{})
	type answer struct {
		Tools         []struct{ ID string }
		Scope         string
		Fits          bool
		Unsaid, Unmet []string
	}
	find := func(query string) (string, answer) {
		args, _ := json.Marshal(map[string]string{"query": query})
		out := decode(t, s.Call(t.Context(), Request{Name: "find_tools", Args: args}))
		var a answer
		if err := json.Unmarshal(out.StructuredContent, &a); err != nil || len(out.text()) > findBytes/2+200 {
			t.Errorf("%.80q: %v in an answer of %d bytes", query, err, len(out.text()))
		}
		return out.text(), a
	}
	for _, query := range []string{"create an issue", "search files", "hub/get_issue", "send a mail to Anna"} {
		if text, a := find(query); !a.Fits || a.Scope == "outside_domain" || a.Unsaid != nil || a.Unmet != nil || strings.Contains(text, "clearly") {
			t.Errorf("%q gives %s", query, text)
		}
	}
	text, a := find("search a restaurant")
	if a.Fits || a.Scope != "outside_domain" || len(a.Tools) == 0 || !slices.Equal(a.Unsaid, []string{"restaurant"}) ||
		!strings.Contains(text, "hub/search_files | ") || !strings.Contains(text, `outside_domain: no tool here clearly fits`) || !strings.Contains(text, `none of these mentions "restaurant"`) {
		t.Errorf("where only a verb matches: %s", text)
	}
	text, a = find("create an issue and book a flight to Rome")
	if !a.Fits || a.Scope != "can_execute" || !slices.Equal(a.Unmet, []string{"book a flight to Rome"}) || !strings.Contains(text, `no tool here fits "book a flight to Rome"`) {
		t.Errorf("where one of two needs is met: %s", text)
	}
	for query, want := range map[string]string{
		"nowhere/get_issue": `there is no tool "nowhere/get_issue": there is no server "nowhere" here. The nearest are hub/get_issue`,
		"hub/create_isue":   `there is no tool "hub/create_isue". The nearest are hub/create_issue`,
	} {
		if text, _ := find(query); !strings.Contains(text, want) {
			t.Errorf("%q gives %s, want %s", query, text, want)
		}
	}
	for _, query := range []string{"the of and", "please", "!?", "wie wird das Wetter", strings.Repeat("zebra ", 2000)} {
		if text, a := find(query); a.Fits || len(a.Tools) > 0 || !strings.Contains(text, "outside_domain: no tool here fits: ") {
			t.Errorf("%.80q gives %s", query, text)
		}
	}
	if text, _ := find("create an issue " + strings.Repeat("zebra ", 2000)); !strings.Contains(text, "only the beginning") {
		t.Errorf("a query of 12 KB gives %s", text)
	}
}
