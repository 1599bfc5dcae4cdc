package sample

import (
	"cmp"
	"fmt"
	"net/mail"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	mailboxFile = "mailbox.json"
	outbox      = "outbox" // folder of sent messages, one RFC 5322 file each
)

func mailTools(f *folder) map[string]server.ToolHandlerFunc {
	m := mailbox{f}
	return map[string]server.ToolHandlerFunc{
		"list_folders":     handler(m.folders),
		"list_messages":    handler(m.list),
		"read_message":     handler(m.read),
		"search_messages":  handler(m.search),
		"list_contacts":    handler(m.contacts),
		"draft_message":    handler(m.draft),
		"update_draft":     handler(m.updateDraft),
		"send_draft":       handler(m.sendDraft),
		"send_message":     handler(m.send),
		"reply_to_message": handler(m.reply),
		"mark_message":     handler(m.mark),
		"move_message":     handler(m.move),
		"delete_message":   handler(m.delete),
	}
}

var mailFolders = []string{"inbox", "archive", "drafts", "sent", "trash"}

// mailbox keeps its state in one JSON file, read for each call. What is sent
// is also written to the outbox before the mailbox says so: a message that the
// mailbox calls sent is there.
type mailbox struct{ *folder }

type box struct {
	Owner    string    `json:"owner"` // address
	Next     int       `json:"next"`  // number of the next message
	Contacts []contact `json:"contacts"`
	Messages []message `json:"messages"` // oldest first
}

type contact struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Note    string `json:"note,omitempty"`
}

type message struct {
	ID      string    `json:"id"`
	Folder  string    `json:"folder"`
	From    string    `json:"from"`
	To      []string  `json:"to"`
	Cc      []string  `json:"cc,omitempty"`
	Subject string    `json:"subject"`
	Date    time.Time `json:"date"`
	Unread  bool      `json:"unread,omitempty"`
	Flagged bool      `json:"flagged,omitempty"`
	ReplyTo string    `json:"in_reply_to,omitempty"` // id of a message
	Body    string    `json:"body"`
}

// header is a message as lists show it.
type header struct {
	ID      string    `json:"id"`
	Folder  string    `json:"folder"`
	From    string    `json:"from"`
	To      []string  `json:"to"`
	Subject string    `json:"subject"`
	Date    time.Time `json:"date"`
	Unread  bool      `json:"unread"`
	Flagged bool      `json:"flagged"`
}

func (m message) header() header {
	return header{m.ID, m.Folder, m.From, m.To, m.Subject, m.Date, m.Unread, m.Flagged}
}

func (h header) line() string {
	mark := " "
	if h.Unread {
		mark = "*"
	}
	return fmt.Sprintf("%s%s %s  %s  %s  [%s]", mark, h.ID, h.Date.Format("2006-01-02 15:04"), h.From, h.Subject, h.Folder)
}

func (m mailbox) load() (box, error) {
	var b box
	err := m.readState(mailboxFile, &b)
	return b, err
}

func (m mailbox) change(f func(*box) error) error {
	return m.locked(func() error {
		b, err := m.load()
		if err != nil {
			return err
		}
		if err := f(&b); err != nil {
			return err
		}
		return m.writeState(mailboxFile, b)
	})
}

func (b *box) find(id string) (*message, error) {
	for i := range b.Messages {
		if b.Messages[i].ID == id {
			return &b.Messages[i], nil
		}
	}
	return nil, fmt.Errorf("there is no message %q", id)
}

func (b *box) findDraft(id string) (*message, error) {
	m, err := b.find(id)
	if err == nil && m.Folder != "drafts" {
		return nil, fmt.Errorf("message %q is in %s, not a draft", id, m.Folder)
	}
	return m, err
}

// add puts a message of the owner's into the mailbox and gives it an id.
func (b *box) add(m message) *message {
	m.ID = fmt.Sprintf("m-%04d", b.Next)
	m.From = b.Owner
	b.Next++
	b.Messages = append(b.Messages, m)
	return &b.Messages[len(b.Messages)-1]
}

func (m mailbox) folders(struct{}) (*mcp.CallToolResult, error) {
	b, err := m.load()
	if err != nil {
		return nil, err
	}
	type count struct {
		Name   string `json:"name"`
		Total  int    `json:"total"`
		Unread int    `json:"unread"`
	}
	var counts []count
	var text []string
	for _, name := range mailFolders {
		c := count{Name: name}
		for _, msg := range b.Messages {
			if msg.Folder == name {
				c.Total++
				if msg.Unread {
					c.Unread++
				}
			}
		}
		counts = append(counts, c)
		text = append(text, fmt.Sprintf("%s: %d (%d unread)", c.Name, c.Total, c.Unread))
	}
	return mcp.NewToolResultStructured(map[string]any{"folders": counts}, strings.Join(text, "\n")), nil
}

type mailListing struct {
	Total    int      `json:"total"`
	Next     int      `json:"next_offset,omitempty"`
	Messages []header `json:"messages"`
}

func listMail(hits []message, offset, limit int) *mcp.CallToolResult {
	slices.SortStableFunc(hits, func(x, y message) int { return y.Date.Compare(x.Date) })
	part, next := page(hits, offset, limit, 20)
	out := mailListing{Total: len(hits), Next: next, Messages: []header{}}
	text := []string{fmt.Sprintf("%d message(s)", len(hits))}
	for _, msg := range part {
		out.Messages = append(out.Messages, msg.header())
		text = append(text, msg.header().line())
	}
	if next > 0 {
		text = append(text, fmt.Sprintf("(more from offset %d)", next))
	}
	return mcp.NewToolResultStructured(out, strings.Join(text, "\n"))
}

func (m mailbox) list(a struct {
	Folder        string
	UnreadOnly    bool `json:"unread_only"`
	Offset, Limit int
}) (*mcp.CallToolResult, error) {
	b, err := m.load()
	if err != nil {
		return nil, err
	}
	folder := cmp.Or(a.Folder, "inbox")
	hits := slices.DeleteFunc(b.Messages, func(msg message) bool {
		return msg.Folder != folder || a.UnreadOnly && !msg.Unread
	})
	return listMail(hits, a.Offset, a.Limit), nil
}

func (m mailbox) read(a struct{ ID string }) (*mcp.CallToolResult, error) {
	b, err := m.load()
	if err != nil {
		return nil, err
	}
	msg, err := b.find(a.ID)
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultStructured(msg, msg.text()), nil
}

// text is the message as it goes over the wire, but for encodings.
func (m message) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "From: %s\nTo: %s\n", m.From, strings.Join(m.To, ", "))
	if len(m.Cc) > 0 {
		fmt.Fprintf(&b, "Cc: %s\n", strings.Join(m.Cc, ", "))
	}
	fmt.Fprintf(&b, "Date: %s\nSubject: %s\nMessage-ID: <%s@storefront.example>\n", m.Date.Format(time.RFC1123Z), m.Subject, m.ID)
	if m.ReplyTo != "" {
		fmt.Fprintf(&b, "In-Reply-To: <%s@storefront.example>\n", m.ReplyTo)
	}
	return b.String() + "\n" + m.Body
}

func (m mailbox) search(a struct {
	Query, Folder, From string
	Since               string
	Offset, Limit       int
}) (*mcp.CallToolResult, error) {
	var since time.Time
	if a.Since != "" {
		var err error
		if since, err = time.Parse(time.DateOnly, a.Since); err != nil {
			return nil, fmt.Errorf("since: %q is no date like 2026-11-30", a.Since)
		}
	}
	b, err := m.load()
	if err != nil {
		return nil, err
	}
	words := strings.Fields(strings.ToLower(a.Query))
	hits := slices.DeleteFunc(b.Messages, func(msg message) bool {
		text := strings.ToLower(msg.Subject + "\n" + msg.Body + "\n" + msg.From + "\n" + strings.Join(msg.To, "\n"))
		return a.Folder != "" && msg.Folder != a.Folder ||
			!strings.Contains(strings.ToLower(msg.From), strings.ToLower(a.From)) ||
			msg.Date.Before(since) ||
			slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	})
	return listMail(hits, a.Offset, a.Limit), nil
}

func (m mailbox) contacts(a struct{ Query string }) (*mcp.CallToolResult, error) {
	b, err := m.load()
	if err != nil {
		return nil, err
	}
	query := strings.ToLower(a.Query)
	hits, text := []contact{}, []string{}
	for _, c := range b.Contacts {
		if strings.Contains(strings.ToLower(c.Name+" "+c.Address+" "+c.Note), query) {
			hits = append(hits, c)
			text = append(text, fmt.Sprintf("%s <%s> %s", c.Name, c.Address, c.Note))
		}
	}
	if len(text) == 0 {
		text = []string{"no contact matches"}
	}
	return mcp.NewToolResultStructured(map[string]any{"contacts": hits}, strings.Join(text, "\n")), nil
}

// letter is what a person writes: the arguments of several tools.
type letter struct {
	To, Cc        []string
	Subject, Body string
}

// check refuses what could not be delivered, or would add header lines.
func (l letter) check() error {
	for _, a := range slices.Concat(l.To, l.Cc) {
		if _, err := mail.ParseAddress(a); err != nil || strings.ContainsAny(a, "\r\n") {
			return fmt.Errorf("%q is not a mail address", a)
		}
	}
	if strings.ContainsAny(l.Subject, "\r\n") {
		return fmt.Errorf("the subject has a line break")
	}
	return nil
}

func (m mailbox) moment() time.Time { return m.now().UTC().Truncate(time.Second) }

func (m mailbox) draft(a letter) (*mcp.CallToolResult, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	var made header
	err := m.change(func(b *box) error {
		made = b.add(message{Folder: "drafts", To: append([]string{}, a.To...), Cc: a.Cc, Subject: a.Subject, Date: m.moment(), Body: a.Body}).header()
		return nil
	})
	return about(made, err, "saved draft")
}

func (m mailbox) updateDraft(a struct {
	ID            string
	To, Cc        *[]string
	Subject, Body *string
}) (*mcp.CallToolResult, error) {
	var after header
	err := m.change(func(b *box) error {
		d, err := b.findDraft(a.ID)
		if err != nil {
			return err
		}
		l := letter{d.To, d.Cc, d.Subject, d.Body}
		set(&l.To, a.To)
		set(&l.Cc, a.Cc)
		set(&l.Subject, a.Subject)
		set(&l.Body, a.Body)
		if err := l.check(); err != nil {
			return err
		}
		d.To, d.Cc, d.Subject, d.Body, d.Date = l.To, l.Cc, l.Subject, l.Body, m.moment()
		after = d.header()
		return nil
	})
	return about(after, err, "updated draft")
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// deliver hands a message of the mailbox over. The caller holds the lock.
func (m mailbox) deliver(msg *message) error {
	if len(msg.To) == 0 {
		return fmt.Errorf("the message has no recipient")
	}
	msg.Folder, msg.Date, msg.Unread = "sent", m.moment(), false
	if err := m.root.MkdirAll(outbox, 0o755); err != nil {
		return err
	}
	return replace(m.root, path.Join(outbox, msg.ID+".eml"), []byte(msg.text()))
}

func (m mailbox) sendDraft(a struct{ ID string }) (*mcp.CallToolResult, error) {
	var sent header
	err := m.change(func(b *box) error {
		d, err := b.findDraft(a.ID)
		if err != nil {
			return err
		}
		err = m.deliver(d)
		sent = d.header()
		return err
	})
	return about(sent, err, "sent to "+strings.Join(sent.To, ", "))
}

func (m mailbox) send(a letter) (*mcp.CallToolResult, error) {
	return m.sendNew(a, "")
}

func (m mailbox) sendNew(a letter, replyTo string) (*mcp.CallToolResult, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	var sent header
	err := m.change(func(b *box) error {
		msg := b.add(message{To: a.To, Cc: a.Cc, Subject: a.Subject, Body: a.Body, ReplyTo: replyTo})
		err := m.deliver(msg)
		sent = msg.header()
		return err
	})
	return about(sent, err, "sent to "+strings.Join(sent.To, ", "))
}

func (m mailbox) reply(a struct {
	ID, Body string
	ReplyAll bool `json:"reply_all"`
}) (*mcp.CallToolResult, error) {
	b, err := m.load()
	if err != nil {
		return nil, err
	}
	msg, err := b.find(a.ID)
	if err != nil {
		return nil, err
	}
	l := letter{To: []string{msg.From}, Subject: msg.Subject, Body: a.Body}
	if !strings.HasPrefix(strings.ToLower(l.Subject), "re:") {
		l.Subject = "Re: " + l.Subject
	}
	if a.ReplyAll {
		l.Cc = slices.DeleteFunc(slices.Concat(msg.To, msg.Cc), func(to string) bool { return to == b.Owner })
	}
	return m.sendNew(l, msg.ID)
}

func (m mailbox) mark(a struct {
	ID              string
	Unread, Flagged *bool
}) (*mcp.CallToolResult, error) {
	return m.changeMessage(a.ID, "marked", func(_ *box, msg *message) error {
		if a.Unread == nil && a.Flagged == nil {
			return fmt.Errorf("nothing to change: give unread or flagged")
		}
		set(&msg.Unread, a.Unread)
		set(&msg.Flagged, a.Flagged)
		return nil
	})
}

func (m mailbox) move(a struct{ ID, Folder string }) (*mcp.CallToolResult, error) {
	return m.changeMessage(a.ID, "moved", func(_ *box, msg *message) error {
		if movable := []string{"inbox", "archive", "trash"}; !slices.Contains(movable, msg.Folder) {
			return fmt.Errorf("message %q is in %s, from which nothing is moved", msg.ID, msg.Folder)
		}
		msg.Folder = a.Folder
		return nil
	})
}

func (m mailbox) changeMessage(id, what string, f func(*box, *message) error) (*mcp.CallToolResult, error) {
	var after header
	err := m.change(func(b *box) error {
		msg, err := b.find(id)
		if err != nil {
			return err
		}
		err = f(b, msg)
		after = msg.header()
		return err
	})
	return about(after, err, what)
}

func (m mailbox) delete(a struct{ ID string }) (*mcp.CallToolResult, error) {
	var subject string
	err := m.change(func(b *box) error {
		msg, err := b.find(a.ID)
		if err != nil {
			return err
		}
		subject = msg.Subject
		b.Messages = slices.DeleteFunc(b.Messages, func(msg message) bool { return msg.ID == a.ID })
		return nil
	})
	return said(err, "deleted message %s %q for good", a.ID, subject)
}

// about answers with a message's header after something was done to it.
func about(h header, err error, what string) (*mcp.CallToolResult, error) {
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultStructured(h, what+": "+h.line()), nil
}
