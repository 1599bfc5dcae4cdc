package sample

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const trackerFile = "issues.json"

func issueTools(f *folder) map[string]server.ToolHandlerFunc {
	t := issues{f}
	return map[string]server.ToolHandlerFunc{
		"list_issues":   handler(t.list),
		"get_issue":     handler(t.get),
		"search_issues": handler(t.search),
		"issue_stats":   handler(t.stats),
		"list_labels":   handler(t.labels),
		"create_issue":  handler(t.create),
		"update_issue":  handler(t.update),
		"add_comment":   handler(t.comment),
		"add_label":     handler(t.addLabel),
		"remove_label":  handler(t.removeLabel),
		"assign_issue":  handler(t.assign),
		"close_issue":   handler(t.close),
		"reopen_issue":  handler(t.reopen),
		"delete_issue":  handler(t.delete),
	}
}

// issues keeps all its state in one JSON file, read for each call: another
// process may serve the same folder.
type issues struct{ *folder }

type tracker struct {
	Next   int     `json:"next"` // number of the next issue; numbers are not used again
	Labels []label `json:"labels"`
	Issues []issue `json:"issues"` // by number
}

type label struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type issue struct {
	Number   int       `json:"number"`
	Title    string    `json:"title"`
	State    string    `json:"state"` // open, closed
	Reason   string    `json:"reason,omitempty"`
	Author   string    `json:"author"`
	Assignee string    `json:"assignee,omitempty"`
	Labels   []string  `json:"labels"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
	Closed   time.Time `json:"closed,omitzero"`
	Body     string    `json:"body"`
	Comments []comment `json:"comments"`
}

type comment struct {
	Author  string    `json:"author"`
	Created time.Time `json:"created"`
	Body    string    `json:"body"`
}

// summary is an issue as lists show it.
type summary struct {
	Number   int       `json:"number"`
	Title    string    `json:"title"`
	State    string    `json:"state"`
	Assignee string    `json:"assignee,omitempty"`
	Labels   []string  `json:"labels"`
	Comments int       `json:"comments"`
	Updated  time.Time `json:"updated"`
}

func (i issue) summary() summary {
	return summary{i.Number, i.Title, i.State, i.Assignee, i.Labels, len(i.Comments), i.Updated}
}

func (s summary) line() string {
	line := fmt.Sprintf("#%d [%s] %s", s.Number, s.State, s.Title)
	if len(s.Labels) > 0 {
		line += " (" + strings.Join(s.Labels, ", ") + ")"
	}
	if s.Assignee != "" {
		line += " -> " + s.Assignee
	}
	return line
}

// me is who writes through this server.
const me = "you"

func (t issues) load() (tracker, error) {
	var all tracker
	err := t.readState(trackerFile, &all)
	return all, err
}

// change runs f on the tracker and stores what it left, unless f fails.
func (t issues) change(f func(*tracker) error) error {
	return t.locked(func() error {
		all, err := t.load()
		if err != nil {
			return err
		}
		if err := f(&all); err != nil {
			return err
		}
		return t.writeState(trackerFile, all)
	})
}

// changeIssue runs f on one issue and answers with the issue as it then is.
func (t issues) changeIssue(number int, f func(*tracker, *issue) error) (*mcp.CallToolResult, error) {
	var after issue
	err := t.change(func(all *tracker) error {
		i, err := all.find(number)
		if err != nil {
			return err
		}
		if err := f(all, i); err != nil {
			return err
		}
		i.Updated = t.now().UTC().Truncate(time.Second)
		after = *i
		return nil
	})
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultStructured(after.summary(), after.summary().line()), nil
}

func (all *tracker) find(number int) (*issue, error) {
	for i := range all.Issues {
		if all.Issues[i].Number == number {
			return &all.Issues[i], nil
		}
	}
	return nil, fmt.Errorf("there is no issue #%d", number)
}

// known checks label names against the tracker's own.
func (all *tracker) known(labels ...string) error {
	for _, l := range labels {
		if !slices.ContainsFunc(all.Labels, func(k label) bool { return k.Name == l }) {
			return fmt.Errorf("there is no label %q: see list_labels", l)
		}
	}
	return nil
}

type listing struct {
	Total  int       `json:"total"`
	Next   int       `json:"next_offset,omitempty"`
	Issues []summary `json:"issues"`
}

func listIssues(hits []issue, offset, limit int) *mcp.CallToolResult {
	part, next := page(hits, offset, limit, 20)
	out := listing{Total: len(hits), Next: next, Issues: []summary{}}
	text := []string{fmt.Sprintf("%d issue(s)", len(hits))}
	for _, i := range part {
		out.Issues = append(out.Issues, i.summary())
		text = append(text, i.summary().line())
	}
	if next > 0 {
		text = append(text, fmt.Sprintf("(more from offset %d)", next))
	}
	return mcp.NewToolResultStructured(out, strings.Join(text, "\n"))
}

func (t issues) list(a struct {
	State, Label, Assignee, Sort string
	Offset, Limit                int
}) (*mcp.CallToolResult, error) {
	all, err := t.load()
	if err != nil {
		return nil, err
	}
	hits := slices.DeleteFunc(all.Issues, func(i issue) bool {
		state := cmp.Or(a.State, "open")
		return state != "all" && i.State != state ||
			a.Label != "" && !slices.Contains(i.Labels, a.Label) ||
			a.Assignee != "" && i.Assignee != a.Assignee
	})
	slices.SortStableFunc(hits, func(x, y issue) int {
		switch a.Sort {
		case "created":
			return y.Created.Compare(x.Created)
		case "comments":
			return cmp.Compare(len(y.Comments), len(x.Comments))
		default:
			return y.Updated.Compare(x.Updated)
		}
	})
	return listIssues(hits, a.Offset, a.Limit), nil
}

func (t issues) get(a struct{ Number int }) (*mcp.CallToolResult, error) {
	all, err := t.load()
	if err != nil {
		return nil, err
	}
	i, err := all.find(a.Number)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nopened by %s on %s\n\n%s\n", i.summary().line(), i.Author, i.Created.Format(time.DateOnly), i.Body)
	for _, c := range i.Comments {
		fmt.Fprintf(&b, "\n--- %s on %s ---\n%s\n", c.Author, c.Created.Format(time.DateOnly), c.Body)
	}
	return mcp.NewToolResultStructured(i, b.String()), nil
}

func (t issues) search(a struct {
	Query, State  string
	Offset, Limit int
}) (*mcp.CallToolResult, error) {
	all, err := t.load()
	if err != nil {
		return nil, err
	}
	words := strings.Fields(strings.ToLower(a.Query))
	if len(words) == 0 {
		return nil, fmt.Errorf("the query has no words")
	}
	hits := slices.DeleteFunc(all.Issues, func(i issue) bool {
		state := cmp.Or(a.State, "all")
		return state != "all" && i.State != state || !i.mentions(words)
	})
	return listIssues(hits, a.Offset, a.Limit), nil
}

// mentions reports whether every word occurs somewhere in the issue.
func (i issue) mentions(words []string) bool {
	text := i.Title + "\n" + i.Body + "\n" + strings.Join(i.Labels, "\n")
	for _, c := range i.Comments {
		text += "\n" + c.Body
	}
	text = strings.ToLower(text)
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

type statistics struct {
	Open       int            `json:"open"`
	Closed     int            `json:"closed"`
	Unassigned int            `json:"unassigned"` // of the open ones
	ByLabel    map[string]int `json:"by_label"`   // open issues
	ByAssignee map[string]int `json:"by_assignee"`
	MedianDays float64        `json:"median_days_to_close"`
}

func (t issues) stats(struct{}) (*mcp.CallToolResult, error) {
	all, err := t.load()
	if err != nil {
		return nil, err
	}
	s := statistics{ByLabel: map[string]int{}, ByAssignee: map[string]int{}}
	var days []float64
	for _, i := range all.Issues {
		if i.State == "closed" {
			s.Closed++
			days = append(days, i.Closed.Sub(i.Created).Hours()/24)
			continue
		}
		s.Open++
		if i.Assignee == "" {
			s.Unassigned++
		} else {
			s.ByAssignee[i.Assignee]++
		}
		for _, l := range i.Labels {
			s.ByLabel[l]++
		}
	}
	s.MedianDays = median(days)
	return mcp.NewToolResultStructured(s, fmt.Sprintf("%d open (%d unassigned), %d closed, median %.1f days to close", s.Open, s.Unassigned, s.Closed, s.MedianDays)), nil
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

func (t issues) labels(struct{}) (*mcp.CallToolResult, error) {
	all, err := t.load()
	if err != nil {
		return nil, err
	}
	var text []string
	for _, l := range all.Labels {
		text = append(text, l.Name+": "+l.Description)
	}
	return mcp.NewToolResultStructured(map[string]any{"labels": all.Labels}, strings.Join(text, "\n")), nil
}

func (t issues) create(a struct {
	Title, Body, Assignee string
	Labels                []string
}) (*mcp.CallToolResult, error) {
	var made issue
	err := t.change(func(all *tracker) error {
		if err := all.known(a.Labels...); err != nil {
			return err
		}
		now := t.now().UTC().Truncate(time.Second)
		made = issue{
			Number: all.Next, Title: a.Title, State: "open", Author: me, Assignee: a.Assignee, Body: a.Body,
			Labels: append([]string{}, a.Labels...), Created: now, Updated: now, Comments: []comment{},
		}
		all.Next++
		all.Issues = append(all.Issues, made)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultStructured(made.summary(), "created "+made.summary().line()), nil
}

func (t issues) update(a struct {
	Number      int
	Title, Body *string
}) (*mcp.CallToolResult, error) {
	return t.changeIssue(a.Number, func(_ *tracker, i *issue) error {
		if a.Title == nil && a.Body == nil {
			return fmt.Errorf("nothing to change: give title or body")
		}
		if a.Title != nil {
			i.Title = *a.Title
		}
		if a.Body != nil {
			i.Body = *a.Body
		}
		return nil
	})
}

func (t issues) comment(a struct {
	Number int
	Body   string
}) (*mcp.CallToolResult, error) {
	return t.changeIssue(a.Number, func(_ *tracker, i *issue) error {
		i.Comments = append(i.Comments, comment{Author: me, Created: t.now().UTC().Truncate(time.Second), Body: a.Body})
		return nil
	})
}

func (t issues) addLabel(a struct {
	Number int
	Label  string
}) (*mcp.CallToolResult, error) {
	return t.changeIssue(a.Number, func(all *tracker, i *issue) error {
		if err := all.known(a.Label); err != nil {
			return err
		}
		if !slices.Contains(i.Labels, a.Label) {
			i.Labels = append(i.Labels, a.Label)
		}
		return nil
	})
}

func (t issues) removeLabel(a struct {
	Number int
	Label  string
}) (*mcp.CallToolResult, error) {
	return t.changeIssue(a.Number, func(_ *tracker, i *issue) error {
		at := slices.Index(i.Labels, a.Label)
		if at < 0 {
			return fmt.Errorf("issue #%d does not have the label %q", i.Number, a.Label)
		}
		i.Labels = slices.Delete(i.Labels, at, at+1)
		return nil
	})
}

func (t issues) assign(a struct {
	Number   int
	Assignee string
}) (*mcp.CallToolResult, error) {
	return t.changeIssue(a.Number, func(_ *tracker, i *issue) error {
		i.Assignee = a.Assignee
		return nil
	})
}

func (t issues) close(a struct {
	Number          int
	Reason, Comment string
}) (*mcp.CallToolResult, error) {
	return t.changeIssue(a.Number, func(_ *tracker, i *issue) error {
		if i.State == "closed" {
			return fmt.Errorf("issue #%d is closed already", i.Number)
		}
		now := t.now().UTC().Truncate(time.Second)
		i.State, i.Reason, i.Closed = "closed", cmp.Or(a.Reason, "completed"), now
		if a.Comment != "" {
			i.Comments = append(i.Comments, comment{Author: me, Created: now, Body: a.Comment})
		}
		return nil
	})
}

func (t issues) reopen(a struct{ Number int }) (*mcp.CallToolResult, error) {
	return t.changeIssue(a.Number, func(_ *tracker, i *issue) error {
		if i.State == "open" {
			return fmt.Errorf("issue #%d is open already", i.Number)
		}
		i.State, i.Reason, i.Closed = "open", "", time.Time{}
		return nil
	})
}

func (t issues) delete(a struct{ Number int }) (*mcp.CallToolResult, error) {
	var title string
	err := t.change(func(all *tracker) error {
		i, err := all.find(a.Number)
		if err != nil {
			return err
		}
		title = i.Title
		all.Issues = slices.DeleteFunc(all.Issues, func(i issue) bool { return i.Number == a.Number })
		return nil
	})
	return said(err, "deleted issue #%d %q and its comments", a.Number, title)
}
