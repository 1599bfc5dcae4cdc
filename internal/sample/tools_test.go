package sample

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var fixed = time.Date(2026, 12, 1, 8, 30, 0, 0, time.UTC)

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func onDisk(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wantText(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFilesRead(t *testing.T) {
	dir := t.TempDir()
	s := connect(t, "files", dir)

	list := structured[struct{ Entries []entry }](s, "list_directory", `{}`)
	var names []string
	for _, e := range list.Entries {
		names = append(names, e.Path+" "+e.Type)
	}
	if want := []string{"CHANGELOG.md file", "README.md file", "config directory", "data directory", "docs directory", "notes directory", "src directory"}; !slices.Equal(names, want) {
		t.Errorf("list %v, want %v", names, want)
	}
	if text := s.text("list_directory", `{"path":"./docs/"}`); !strings.Contains(text, fmt.Sprintf("docs/runbook.md  %d bytes", len(onDisk(t, dir, "docs/runbook.md")))) {
		t.Errorf("list of docs: %s", text)
	}
	wantText(t, s.text("directory_tree", `{"path":"config"}`), "config/\n  features.json\n  shipping.json\n")
	if text := s.text("directory_tree", `{"depth":1}`); !strings.Contains(text, "\n  docs/\n") || strings.Contains(text, "runbook") {
		t.Errorf("tree of one level: %s", text)
	}
	wantText(t, s.text("read_file", `{"path":"config/features.json"}`), onDisk(t, dir, "config/features.json"))
	wantText(t, s.text("read_file", `{"path":"data/orders-2026-10.csv","line_count":1}`), "order,day,customer,country,sku,quantity,cents,state\n")
	wantText(t, s.text("read_file", `{"path":"CHANGELOG.md","first_line":3,"line_count":2,"line_numbers":true}`), "     3  ## 2.4.0 (2026-11-17)\n     4  \n")
	wantText(t, s.text("search_files", `{"pattern":"*.json"}`), "config/features.json\nconfig/shipping.json")
	wantText(t, s.text("search_files", `{"pattern":"src/c*.js","limit":1}`), "src/cart.js\n(1 more: raise limit or narrow the search)")
	wantText(t, s.text("search_files", `{"pattern":"*.exe"}`), "no file matches")
	wantText(t, s.text("search_text", `{"query":"WRAPPING_cents"}`), "src/prices.js:10: export const WRAPPING_CENTS = 250;")
	wantText(t, s.text("search_text", `{"query":"WRAPPING_cents","case_sensitive":true}`), "no line matches")
	wantText(t, s.text("search_text", `{"query":"^# .*Q?launch","regex":true,"include":"*.md","path":"notes"}`), "notes/launch-plan.md:1: # Gift cards: launch plan")
	info := structured[entry](s, "file_info", `{"path":"README.md"}`)
	if info.Type != "file" || info.Size != int64(len(onDisk(t, dir, "README.md"))) || info.Mode == "" {
		t.Errorf("file_info %+v", info)
	}
	many := s.text("read_many_files", `{"paths":["config/features.json","nope.txt"]}`)
	if !strings.Contains(many, `"giftCards": false`) || !strings.Contains(many, "=== nope.txt ===\ncould not be read: nope.txt: no such file") {
		t.Errorf("read_many_files: %s", many)
	}
	s.fails("read_many_files", `{"paths":["nope.txt"]}`, "nope.txt")
}

func TestFilesReadRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "photo.bin", "\xff\xfe\x00")
	write(t, dir, "large.txt", strings.Repeat("x", maxFile+1))
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := connect(t, "files", dir)
	s.fails("read_file", `{"path":"nope.txt"}`, "nope.txt: no such file")
	s.fails("read_file", `{"path":"empty"}`, "is a directory")
	s.fails("read_file", `{"path":"photo.bin"}`, "is not text (3 bytes)")
	s.fails("read_file", `{"path":"large.txt"}`, "more than")
	s.fails("list_directory", `{"path":"nope"}`, "no such file")
	s.fails("directory_tree", `{"path":"nope"}`, "no such file")
	s.fails("search_files", `{"pattern":"["}`, "pattern")
	s.fails("search_files", `{"pattern":"*","path":"nope"}`, "no such file")
	s.fails("search_text", `{"query":"(","regex":true}`, "query")
	s.fails("search_text", `{"query":"x","include":"["}`, "include")
	s.fails("search_text", `{"query":"x","path":"nope"}`, "no such file")
	s.fails("file_info", `{"path":"nope"}`, "no such file")
	write(t, dir, "short.txt", "a\nb\n")
	s.fails("read_file", `{"path":"short.txt","first_line":3}`, "has 2 lines")
	wantText(t, s.text("list_directory", `{"path":"empty"}`), "(empty)")
	wantText(t, s.text("search_text", `{"query":"a"}`), "short.txt:1: a") // the others are passed over
}

func TestFilesWrite(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.txt", "one two one\n")
	s := connect(t, "files", dir)

	wantText(t, s.text("write_file", `{"path":"b.txt","content":"größe <&>"}`), "wrote 11 bytes to b.txt")
	wantText(t, onDisk(t, dir, "b.txt"), "größe <&>")
	s.fails("write_file", `{"path":"b.txt","content":"x","overwrite":false}`, "overwrite is false")
	s.text("write_file", `{"path":"b.txt","content":"new"}`)
	wantText(t, onDisk(t, dir, "b.txt"), "new")
	s.fails("write_file", `{"path":"x/y/z.txt","content":""}`, "no such file")
	s.text("write_file", `{"path":"x/y/z.txt","content":"","create_parents":true}`)
	wantText(t, onDisk(t, dir, "x/y/z.txt"), "")
	s.fails("write_file", `{"path":"x","content":""}`, "is a directory")
	s.fails("write_file", `{"path":"a.txt/b","content":"","create_parents":true}`, "a.txt")

	wantText(t, s.text("append_to_file", `{"path":"b.txt","content":"er"}`), "appended 2 bytes to b.txt, which now has 5")
	s.text("append_to_file", `{"path":"c.txt","content":"begun"}`)
	wantText(t, onDisk(t, dir, "b.txt")+onDisk(t, dir, "c.txt"), "newerbegun")
	s.fails("append_to_file", `{"path":"x","content":"y"}`, "is a directory")

	s.fails("edit_file", `{"path":"a.txt","old_text":"three","new_text":""}`, "does not occur")
	s.fails("edit_file", `{"path":"a.txt","old_text":"one","new_text":"1"}`, "occurs 2 times")
	s.fails("edit_file", `{"path":"nope","old_text":"one","new_text":"1"}`, "no such file")
	wantText(t, onDisk(t, dir, "a.txt"), "one two one\n")
	wantText(t, s.text("edit_file", `{"path":"a.txt","old_text":"two","new_text":"2"}`), "replaced 1 occurrence(s) in a.txt")
	s.text("edit_file", `{"path":"a.txt","old_text":"one","new_text":"1","replace_all":true}`)
	wantText(t, onDisk(t, dir, "a.txt"), "1 2 1\n")

	s.text("create_directory", `{"path":"d/e"}`)
	s.text("create_directory", `{"path":"d/e"}`)
	s.text("move_file", `{"source":"a.txt","destination":"d/e/a.txt"}`)
	s.text("copy_file", `{"source":"d/e/a.txt","destination":"d/copy.txt"}`)
	wantText(t, onDisk(t, dir, "d/copy.txt")+onDisk(t, dir, "d/e/a.txt"), "1 2 1\n1 2 1\n")
	s.fails("move_file", `{"source":"b.txt","destination":"c.txt"}`, "exists already")
	s.fails("copy_file", `{"source":"b.txt","destination":"c.txt"}`, "exists already")
	s.fails("copy_file", `{"source":"nope","destination":"n"}`, "no such file")
	s.fails("move_file", `{"source":"nope","destination":"n"}`, "nope to n: no such file")

	s.fails("delete_file", `{"path":"d"}`, "not empty")
	s.text("delete_file", `{"path":"d","recursive":true}`)
	s.text("delete_file", `{"path":"b.txt"}`)
	s.fails("delete_file", `{"path":"b.txt"}`, "no such file")
	s.fails("delete_file", `{"path":"nope","recursive":true}`, "no such file")
	s.fails("delete_file", `{"path":"./","recursive":true}`, "cannot be deleted")
	if left := tree(t, dir); len(left) != 2 {
		t.Errorf("left are %v, want c.txt and x/y/z.txt", left)
	}
}

func TestFilesStayInside(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "inside")
	write(t, base, "secret.txt", "secret")
	write(t, dir, "a.txt", "a")
	if err := os.Symlink(filepath.Join(base, "secret.txt"), filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..", filepath.Join(dir, "up")); err != nil {
		t.Fatal(err)
	}
	s := connect(t, "files", dir)
	for _, p := range []string{"../secret.txt", "link.txt", "up/secret.txt", filepath.Join(base, "secret.txt"), "a/../../secret.txt"} {
		for tool, args := range map[string]string{
			"read_file":      fmt.Sprintf(`{"path":%q}`, p),
			"append_to_file": fmt.Sprintf(`{"path":%q,"content":"x"}`, p),
			"edit_file":      fmt.Sprintf(`{"path":%q,"old_text":"secret","new_text":"x"}`, p),
			"copy_file":      fmt.Sprintf(`{"source":%q,"destination":"stolen.txt"}`, p),
		} {
			if a := s.call(tool, args); !a.IsError || strings.Contains(a.Content[0].Text, "wrote") {
				t.Errorf("%s %s: %s", tool, args, a.Content[0].Text)
			}
		}
	}
	s.fails("write_file", `{"path":"../new.txt","content":"x"}`, "escapes")
	s.fails("write_file", `{"path":"up/new.txt","content":"x"}`, "escapes")
	s.fails("create_directory", `{"path":"../new"}`, "escapes")
	s.fails("move_file", `{"source":"a.txt","destination":"../a.txt"}`, "escapes")
	s.fails("delete_file", `{"path":"../secret.txt"}`, "escapes")
	s.fails("delete_file", `{"path":"..","recursive":true}`, "escapes")
	s.fails("list_directory", `{"path":".."}`, "invalid")
	if text := s.text("search_text", `{"query":"secret"}`); text != "no line matches" {
		t.Errorf("a search followed a link: %s", text)
	}
	if e := structured[entry](s, "file_info", `{"path":"link.txt"}`); e.Type != "link" {
		t.Errorf("a link is described as %+v", e)
	}
	if onDisk(t, base, "secret.txt") != "secret" || len(tree(t, base)) != 2 {
		t.Errorf("outside was changed: %v", tree(t, base))
	}
}

func TestFilesConcurrentCalls(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "log.txt", "")
	s := connect(t, "files", dir)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			s.text("append_to_file", fmt.Sprintf(`{"path":"log.txt","content":"line %02d\n"}`, i))
			if text := s.text("directory_tree", `{}`); strings.Contains(text, newPrefix) {
				t.Errorf("a file that is being written shows: %s", text)
			}
		})
	}
	wg.Wait()
	lines := strings.Split(strings.TrimSpace(onDisk(t, dir, "log.txt")), "\n")
	slices.Sort(lines)
	if len(slices.Compact(lines)) != 40 {
		t.Errorf("%d lines arrived, want 40", len(lines))
	}
}

func TestIssuesRead(t *testing.T) {
	s := connect(t, "issues", t.TempDir())
	open := structured[listing](s, "list_issues", `{}`)
	if open.Total != 10 || len(open.Issues) != 10 || open.Next != 0 || open.Issues[0].Updated.Before(open.Issues[9].Updated) {
		t.Errorf("open issues %+v", open)
	}
	blockers := structured[listing](s, "list_issues", `{"label":"blocker","sort":"comments"}`)
	if blockers.Total != 2 || blockers.Issues[0].Number != 11 {
		t.Errorf("blockers %+v", blockers)
	}
	if l := structured[listing](s, "list_issues", `{"state":"all","assignee":"backend","sort":"created"}`); l.Total != 4 || l.Issues[0].Number != 17 {
		t.Errorf("of the backend %+v", l)
	}
	var seen []int
	for offset := 0; ; {
		l := structured[listing](s, "list_issues", fmt.Sprintf(`{"state":"all","limit":5,"offset":%d}`, offset))
		for _, i := range l.Issues {
			seen = append(seen, i.Number)
		}
		if offset = l.Next; offset == 0 {
			break
		}
	}
	slices.Sort(seen)
	if len(slices.Compact(seen)) != 14 {
		t.Errorf("paging shows %v, want 14 issues", seen)
	}
	if l := structured[listing](s, "list_issues", `{"offset":99}`); len(l.Issues) != 0 {
		t.Errorf("beyond the end: %+v", l)
	}
	got := structured[issue](s, "get_issue", `{"number":11}`)
	if got.Title != "Shipping is charged twice when the address is changed" || len(got.Comments) != 3 || got.Assignee != "backend" {
		t.Errorf("issue 11 is %+v", got)
	}
	if text := s.text("get_issue", `{"number":11}`); !strings.Contains(text, "opened by support on 2026-11-05") || !strings.Contains(text, "--- shop-owner on 2026-11-27 ---\nThis has to be out") {
		t.Errorf("text of issue 11: %s", text)
	}
	if l := structured[listing](s, "search_issues", `{"query":"STOCK supplier"}`); l.Total != 3 {
		t.Errorf("search: %+v", l)
	}
	if l := structured[listing](s, "search_issues", `{"query":"stock supplier","state":"open"}`); l.Total != 1 || l.Issues[0].Number != 21 {
		t.Errorf("search of open issues: %+v", l)
	}
	st := structured[statistics](s, "issue_stats", `{}`)
	if st.Open != 10 || st.Closed != 4 || st.ByLabel["blocker"] != 2 || st.ByAssignee["backend"] != 2 || st.Unassigned != 6 || st.MedianDays < 9 || st.MedianDays > 15 {
		t.Errorf("statistics %+v", st)
	}
	s.fails("get_issue", `{"number":4}`, "there is no issue #4")
	s.fails("search_issues", `{"query":" "}`, "no words")
}

func TestIssuesWrite(t *testing.T) {
	dir := t.TempDir()
	s := connectAt(t, "issues", dir, fixed)
	made := structured[summary](s, "create_issue", `{"title":"Räder <&>","body":"b","labels":["bug"],"assignee":"frontend"}`)
	if made.Number != 23 || !made.Updated.Equal(fixed) || made.State != "open" {
		t.Fatalf("made %+v", made)
	}
	s.text("add_comment", `{"number":23,"body":"c1"}`)
	s.text("add_label", `{"number":23,"label":"checkout"}`)
	s.text("add_label", `{"number":23,"label":"checkout"}`)
	s.text("remove_label", `{"number":23,"label":"bug"}`)
	s.text("assign_issue", `{"number":23,"assignee":""}`)
	s.text("update_issue", `{"number":23,"body":"b2"}`)
	s.text("update_issue", `{"number":23,"title":"Wheels"}`)
	s.text("close_issue", `{"number":23,"reason":"duplicate","comment":"see #11"}`)

	again := connectAt(t, "issues", dir, fixed) // what a new session finds
	i := structured[issue](again, "get_issue", `{"number":23}`)
	if i.Title != "Wheels" || i.Body != "b2" || !slices.Equal(i.Labels, []string{"checkout"}) || i.Assignee != "" || i.State != "closed" || i.Reason != "duplicate" || !i.Closed.Equal(fixed) || len(i.Comments) != 2 || i.Comments[1].Body != "see #11" || i.Author != me {
		t.Errorf("kept %+v", i)
	}
	again.fails("close_issue", `{"number":23}`, "closed already")
	again.text("reopen_issue", `{"number":23}`)
	again.fails("reopen_issue", `{"number":23}`, "open already")
	if i := structured[issue](again, "get_issue", `{"number":23}`); i.State != "open" || i.Reason != "" || !i.Closed.IsZero() {
		t.Errorf("reopened %+v", i)
	}
	wantText(t, again.text("delete_issue", `{"number":23}`), `deleted issue #23 "Wheels" and its comments`)
	again.fails("get_issue", `{"number":23}`, "no issue")
	again.fails("delete_issue", `{"number":23}`, "no issue")
	if next := structured[summary](again, "create_issue", `{"title":"t"}`); next.Number != 24 {
		t.Errorf("a number was used again: %+v", next)
	}
	before := onDisk(t, dir, trackerFile)
	again.fails("create_issue", `{"title":"t","labels":["nope"]}`, `no label "nope"`)
	again.fails("add_label", `{"number":3,"label":"nope"}`, `no label "nope"`)
	again.fails("remove_label", `{"number":3,"label":"docs"}`, "does not have the label")
	again.fails("update_issue", `{"number":3}`, "nothing to change")
	again.fails("add_comment", `{"number":99,"body":"x"}`, "no issue #99")
	if onDisk(t, dir, trackerFile) != before {
		t.Error("calls that failed changed the tracker")
	}
}

func TestStateThatIsDamaged(t *testing.T) {
	for name, tools := range map[string]map[string]string{
		"issues": {
			"list_issues": `{}`, "get_issue": `{"number":3}`, "search_issues": `{"query":"x"}`, "issue_stats": `{}`, "list_labels": `{}`,
			"create_issue": `{"title":"t"}`, "delete_issue": `{"number":3}`, "reopen_issue": `{"number":3}`,
		},
		"mail": {
			"list_folders": `{}`, "list_messages": `{}`, "read_message": `{"id":"m-0001"}`, "search_messages": `{}`, "list_contacts": `{}`,
			"send_message": `{"to":["a@b.example"],"subject":"s","body":"b"}`, "reply_to_message": `{"id":"m-0001","body":"b"}`, "delete_message": `{"id":"m-0001"}`,
		},
	} {
		dir := t.TempDir()
		file := map[string]string{"issues": trackerFile, "mail": mailboxFile}[name]
		write(t, dir, file, "{half")
		s := connect(t, name, dir)
		for tool, args := range tools {
			s.fails(tool, args, "read "+file)
		}
		wantText(t, onDisk(t, dir, file), "{half") // nothing was lost on top
	}
}

func TestMailRead(t *testing.T) {
	s := connect(t, "mail", t.TempDir())
	wantText(t, s.text("list_folders", `{}`), "inbox: 8 (6 unread)\narchive: 3 (0 unread)\ndrafts: 1 (0 unread)\nsent: 1 (0 unread)\ntrash: 0 (0 unread)")
	inbox := structured[mailListing](s, "list_messages", `{"limit":3}`)
	if inbox.Total != 8 || inbox.Next != 3 || inbox.Messages[0].ID != "m-0008" {
		t.Errorf("inbox %+v", inbox)
	}
	if l := structured[mailListing](s, "list_messages", `{"unread_only":true}`); l.Total != 6 {
		t.Errorf("unread %+v", l)
	}
	msg := structured[message](s, "read_message", `{"id":"m-0008"}`)
	if msg.Subject != "New: KN-0447 santoku knife 18 cm" || !msg.Unread {
		t.Errorf("message %+v", msg)
	}
	if text := s.text("read_message", `{"id":"m-0002"}`); !strings.Contains(text, "In-Reply-To: <m-0001@storefront.example>\n\nThank you") {
		t.Errorf("text of a reply: %s", text)
	}
	if text := s.text("read_message", `{"id":"m-0005"}`); !strings.Contains(text, "\nCc: Shop owner <owner@storefront.example>\n") {
		t.Errorf("text with a copy: %s", text)
	}
	for args, want := range map[string]int{
		`{"query":"kn-0447"}`:                           2,
		`{"query":"kn-0447","from":"warehouse"}`:        1,
		`{"from":"STEELWORKS"}`:                         2,
		`{"since":"2026-11-28"}`:                        4,
		`{"folder":"archive","query":"delivery"}`:       1,
		`{"query":"gift card refund tax"}`:              1,
		`{"query":"nothing has this word"}`:             0,
		`{"query":"storefront office","folder":"sent"}`: 1,
	} {
		if l := structured[mailListing](s, "search_messages", args); l.Total != want || len(l.Messages) != want {
			t.Errorf("search %s finds %d, want %d", args, l.Total, want)
		}
	}
	s.fails("search_messages", `{"since":"2026-13-40"}`, "no date")
	s.fails("read_message", `{"id":"m-9999"}`, `no message "m-9999"`)
	if text := s.text("list_contacts", `{"query":"KNIFE"}`); text != "Steelworks (knife supplier) <orders@steelworks.example> stock file every night" {
		t.Errorf("contacts: %s", text)
	}
	wantText(t, s.text("list_contacts", `{"query":"nobody"}`), "no contact matches")
}

func TestMailWrite(t *testing.T) {
	dir := t.TempDir()
	s := connectAt(t, "mail", dir, fixed)
	d := structured[header](s, "draft_message", `{"subject":"Boards","body":"How many?"}`)
	if d.ID != "m-0014" || d.Folder != "drafts" || d.From != "Storefront office <office@storefront.example>" || !d.Date.Equal(fixed) {
		t.Fatalf("draft %+v", d)
	}
	s.fails("send_draft", `{"id":"m-0014"}`, "no recipient")
	s.text("update_draft", `{"id":"m-0014","to":["sales@boardandblock.example"],"cc":["Shop owner <owner@storefront.example>"],"body":"How many boards?"}`)
	wantText(t, s.text("send_draft", `{"id":"m-0014"}`), "sent to sales@boardandblock.example:  m-0014 2026-12-01 08:30  Storefront office <office@storefront.example>  Boards  [sent]")
	wantText(t, onDisk(t, dir, "outbox/m-0014.eml"), "From: Storefront office <office@storefront.example>\nTo: sales@boardandblock.example\nCc: Shop owner <owner@storefront.example>\nDate: Tue, 01 Dec 2026 08:30:00 +0000\nSubject: Boards\nMessage-ID: <m-0014@storefront.example>\n\nHow many boards?")
	s.fails("send_draft", `{"id":"m-0014"}`, "is in sent, not a draft")
	s.fails("update_draft", `{"id":"m-0014","body":"x"}`, "not a draft")

	s.text("send_message", `{"to":["a@b.example"],"subject":"Hi","body":"there"}`)
	re := structured[header](s, "reply_to_message", `{"id":"m-0005","body":"Ten percent is fine.","reply_all":true}`)
	if sent := structured[message](s, "read_message", fmt.Sprintf(`{"id":%q}`, re.ID)); sent.Subject != "Re: Customer C1442: wedding list" || sent.ReplyTo != "m-0005" || !slices.Equal(sent.To, []string{"Support desk <support@storefront.example>"}) || !slices.Equal(sent.Cc, []string{"Shop owner <owner@storefront.example>"}) {
		t.Errorf("reply %+v", sent)
	}
	if again := structured[header](s, "reply_to_message", `{"id":"m-0010","body":"Thanks"}`); again.Subject != "Re: Gift cards and refunds" {
		t.Errorf("a second Re: in %q", again.Subject)
	}
	if files, err := os.ReadDir(filepath.Join(dir, outbox)); err != nil || len(files) != 4 {
		t.Errorf("outbox has %v, %v, want four messages", files, err)
	}

	marked := structured[header](s, "mark_message", `{"id":"m-0007","unread":false,"flagged":true}`)
	if marked.Unread || !marked.Flagged {
		t.Errorf("marked %+v", marked)
	}
	if moved := structured[header](s, "move_message", `{"id":"m-0007","folder":"trash"}`); moved.Folder != "trash" {
		t.Errorf("moved %+v", moved)
	}
	wantText(t, s.text("delete_message", `{"id":"m-0007"}`), `deleted message m-0007 "KN-0447?" for good`)
	again := connectAt(t, "mail", dir, fixed)
	again.fails("read_message", `{"id":"m-0007"}`, "no message")

	before := onDisk(t, dir, mailboxFile)
	again.fails("mark_message", `{"id":"m-0008"}`, "nothing to change")
	again.fails("mark_message", `{"id":"m-0007","unread":true}`, "no message")
	again.fails("move_message", `{"id":"m-0013","folder":"inbox"}`, "is in drafts")
	again.fails("delete_message", `{"id":"m-0007"}`, "no message")
	again.fails("reply_to_message", `{"id":"m-0007","body":"x"}`, "no message")
	again.fails("update_draft", `{"id":"m-0007","body":"x"}`, "no message")
	again.fails("update_draft", `{"id":"m-0013","to":["not an address"]}`, "not a mail address")
	again.fails("send_message", `{"to":["not an address"],"subject":"s","body":"b"}`, "not a mail address")
	again.fails("send_message", `{"to":["a@b.example"],"subject":"s\nBcc: c@d.example","body":"b"}`, "line break")
	again.fails("draft_message", `{"cc":["a@b.example\n"],"subject":"s","body":"b"}`, "not a mail address")
	if onDisk(t, dir, mailboxFile) != before {
		t.Error("calls that failed changed the mailbox")
	}
}

// A message that could not be handed over is not called sent.
func TestMailOutboxThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := Seed("mail", dir); err != nil {
		t.Fatal(err)
	}
	write(t, dir, outbox, "a file where the folder should be")
	before := onDisk(t, dir, mailboxFile)
	s := connect(t, "mail", dir)
	s.fails("send_message", `{"to":["a@b.example"],"subject":"s","body":"b"}`, outbox)
	s.fails("send_draft", `{"id":"m-0013"}`, outbox)
	if onDisk(t, dir, mailboxFile) != before {
		t.Error("the mailbox changed")
	}
}

func TestMailConcurrentCalls(t *testing.T) {
	dir := t.TempDir()
	s := connect(t, "mail", dir)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			s.text("send_message", fmt.Sprintf(`{"to":["a@b.example"],"subject":"s%d","body":"b"}`, i))
			s.text("list_messages", `{}`)
		})
	}
	wg.Wait()
	files, err := os.ReadDir(filepath.Join(dir, outbox))
	sent := structured[mailListing](s, "list_messages", `{"folder":"sent","limit":100}`)
	if err != nil || len(files) != 30 || sent.Total != 31 {
		t.Errorf("outbox %d, sent folder %d, %v, want 30 and 31", len(files), sent.Total, err)
	}
}

// The content of a first run names nobody and no host that could exist.
func TestDemoNamesNobody(t *testing.T) {
	hosts := regexp.MustCompile(`[\w.-]+@[\w.-]+`)
	for _, name := range Names() {
		dir := t.TempDir()
		if err := Seed(name, dir); err != nil {
			t.Fatal(err)
		}
		for p, text := range tree(t, dir) {
			for _, address := range hosts.FindAllString(text, -1) {
				if !strings.HasSuffix(strings.TrimRight(address, "."), ".example") {
					t.Errorf("%s/%s has the address %s", name, p, address)
				}
			}
		}
	}
}
