package catalog

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func ids(hits []Hit) []string {
	var out []string
	for _, h := range hits {
		out = append(out, h.Entry.ID.String())
	}
	return out
}

func TestANamedToolIsFirst(t *testing.T) {
	set := labelled(t)
	for query, want := range map[string]string{
		"github/create_issue":            "github/create_issue",
		"create_issue":                   "github/create_issue",
		"create issue":                   "github/create_issue",
		"createIssue":                    "github/create_issue",
		"mcp__github__create_issue":      "github/create_issue",
		"use `kubectl_logs` to see more": "k8s/kubectl_logs",
		"call slack/slack_post_message":  "slack/slack_post_message",
	} {
		if hits := set.Search(query); len(hits) == 0 || hits[0].Entry.ID.String() != want {
			t.Errorf("%q finds %v first, want %s", query, ids(hits)[:min(len(hits), 3)], want)
		}
	}
	if hits := set.Search("delete_file"); len(hits) < 2 || hits[0].Entry.ID.Tool != "delete_file" || hits[1].Entry.ID.Tool != "delete_file" {
		t.Errorf("a name of two servers finds %v first, want both", ids(hits)[:min(len(hits), 3)])
	}
}

func TestNothingFitsIsAnAnswer(t *testing.T) {
	set := labelled(t)
	for _, query := range []string{"", "   ", "xyzzy plugh", "the of and", "\x00", "qwertz asdfgh yxcvbn"} {
		if hits := set.Search(query); len(hits) != 0 {
			t.Errorf("%q finds %v", query, ids(hits)[:min(len(hits), 3)])
		}
	}
	if hits := NewSet(nil).Search("anything"); len(hits) != 0 {
		t.Errorf("an empty set finds %v", ids(hits))
	}
}

func TestWhatDoesNotFitIsSaid(t *testing.T) {
	set := labelled(t)
	files := NewSet(slices.DeleteFunc(slices.Clone(set.Entries()), func(e Entry) bool { return e.ID.Server != "fs" && e.ID.Server != "git" }))
	for _, want := range []struct {
		set    *Set
		query  string
		fits   bool
		unsaid string
		unmet  string
		noTool bool
	}{
		{files, "search files", true, "", "", false},
		{files, "delete", true, "", "", false},
		{files, "find a hairdresser", false, "hairdresser", "", false},
		{files, "what is the temperature in Oslo", false, "", "", false}, // nothing is found
		{files, "create a folder in Oslo", true, "", "", false},          // the name is an argument
		{files, "查询天气", false, "查询天气", "", false},
		{files, "read the file and book a flight to Rome", true, "", "book a flight to Rome", false},
		{files, "read the file and delete it", true, "", "", false},
		{files, "read_fiel", false, "", "", true},
		{files, "gitlab/create_issue", false, "", "", true},
		{set, "gitlab/create_isue", true, "", "", true},
		{set, "github/create_issue", true, "", "", false},
		{set, "order a pizza", true, "", "", false},
	} {
		f := want.set.FitOf(want.query, want.set.Search(want.query))
		if f.Fits != want.fits || strings.Join(f.Unsaid, " ") != want.unsaid || strings.Join(f.Unmet, "|") != want.unmet || f.NoTool != want.noTool {
			t.Errorf("%q: %+v, want %+v", want.query, f, want)
		}
	}
	if f := set.FitOf("read a file", nil); f.Fits || f.Unsaid != nil {
		t.Errorf("no hits: %+v", f)
	}
	// Of requests in people's words few are told wrongly that nothing fits.
	served, wrong := 0, 0
	eachRow(t, "queries.jsonl", func(row queryRow, _ []byte) {
		served++
		if !set.FitOf(row.Query, set.Search(row.Query)).Fits {
			wrong++
		}
	})
	// And of the same requests, put to tools for other things, most are told so.
	var left, foreign, told int
	eachRow(t, "queries.jsonl", func(row queryRow, _ []byte) {
		for _, w := range row.Want {
			if strings.HasPrefix(w, "fs/") || strings.HasPrefix(w, "git") {
				left++
				return
			}
		}
		foreign++
		if !files.FitOf(row.Query, files.Search(row.Query)).Fits {
			told++
		}
	})
	t.Logf("wrongly told that nothing fits: %d of %d; rightly: %d of %d", wrong, served, told, foreign)
	if share(wrong, served) > .03 || share(told, foreign) < .7 || foreign < 100 {
		t.Errorf("%d of %d served requests are told that nothing fits, and %d of %d others", wrong, served, told, foreign)
	}
}

func TestSearchDoesNotDependOnOrder(t *testing.T) {
	entries := labelled(t).Entries()
	queries := []string{"send a message", "read a file and then email it", "delete", "weather in Oslo", "list"}
	var want []string
	r := rand.New(rand.NewPCG(7, 7))
	for round := range 4 {
		shuffled := slices.Clone(entries)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		set := NewSet(shuffled)
		for i, q := range queries {
			got := strings.Join(ids(set.Search(q)), " ")
			if round == 0 {
				want = append(want, got)
			} else if got != want[i] {
				t.Errorf("%q: the order of the set changes the answer", q)
			}
		}
	}
}

func TestWordsInQuotesAreArguments(t *testing.T) {
	for text, want := range map[string][3]string{
		`add "buy milk" to the list`:         {"add ", "buy milk", " to the list"},
		`rename it to 'old notes'.`:          {"rename it to ", "old notes", "."},
		`Per's file and the users' files`:    {"Per's file and the users' files"},
		`an inch is written 12" or "`:        {`an inch is written 12" or "`},
		`"all of it"`:                        {"", "all of it", ""},
		`name:'it's mine' (as "John's own")`: {"name:", "it's mine", ` (as "John's own")`},
	} {
		before, quoted, after := cutQuoted(text)
		if got := [3]string{before, quoted, after}; got != want {
			t.Errorf("%s: taken apart to %q, want %q", text, got, want)
		}
	}
	set := labelled(t)
	if hits := set.Search(`post the message "please delete the old branch" to the channel`); len(hits) == 0 || hits[0].Entry.ID.String() != "slack/slack_post_message" {
		t.Errorf("a message finds %v first, want the tool that posts it", ids(hits)[:min(len(hits), 3)])
	}
}

func TestWhatIsSaidAboutParametersIsFound(t *testing.T) {
	var entries []Entry
	for _, definition := range []string{
		`{"name":"run","description":"Runs one step.","inputSchema":{"properties":{"mode":{"enum":["rotate","mirror"]}}}}`,
		`{"name":"start","description":"Runs one step.","inputSchema":{"properties":{"x":{"description":"Colour of the background. Red by default."}}}}`,
		`{"name":"go","description":"Runs one step.","inputSchema":{"properties":{"broken":7,"list":{"enum":"no list"}}}}`,
	} {
		tool, err := NewTool("s", []byte(definition))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, Entry{Tool: tool})
	}
	set := NewSet(entries)
	for query, want := range map[string]string{"mirror it": "s/run", "another background": "s/start"} {
		if hits := set.Search(query); len(hits) != 1 || hits[0].Entry.ID.String() != want {
			t.Errorf("%q finds %v, want %s", query, ids(hits), want)
		}
	}
}

func TestOneSpellingOfAWord(t *testing.T) {
	for british, american := range map[string]string{
		"organise": "organize", "organisation": "organization", "analysing": "analyzing", "colours": "color", "favourite": "favorites", "kilometre": "kilometers",
		"litres": "liter", "centre": "centers", "catalogues": "catalog", "summarises": "summarize", "visualisations": "visualization", "optimiser": "optimizer",
		"hours": "hour", "tours": "tour", "noise": "noises", "programme": "programs",
	} {
		if a, b := stem(british), stem(american); a != b {
			t.Errorf("%s is %s and %s is %s, want one stem", british, a, american, b)
		}
	}
}

func TestWhoAsksForOneActIsNotServedByAnother(t *testing.T) {
	var entries []Entry
	for _, name := range []string{"add_label", "label_delete", "update_label", "get_labels", "label"} {
		tool, err := NewTool("s", []byte(`{"name":"`+name+`","description":"Labels of an issue."}`))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, Entry{Tool: tool})
	}
	set := NewSet(entries)
	for query, want := range map[string]string{
		"remove the labels of this issue": "s/label_delete", "please make labels of an issue": "s/add_label", "I want to alter labels of issues": "s/update_label", "show me the labels of an issue": "s/get_labels",
	} {
		if hits := set.Search(query); len(hits) < 4 || hits[0].Entry.ID.String() != want {
			t.Errorf("%q finds %v first, want %s", query, ids(hits), want)
		}
	}
}

func TestNamesOfFilesAndSitesStandForTheirKind(t *testing.T) {
	for query, want := range map[string]string{
		"rename draft.md to final.MD.": "rename file md to file md.",
		"go to example.com, please":    "go to url example, please",
		"a program for node.js v1.2":   "a program for node.js v1.2",
		"open ./a/b.txt and /etc/x":    "open file txt and file",
	} {
		if got := plainly(query); got != want {
			t.Errorf("%q becomes %q, want %q", query, got, want)
		}
	}
}

// foundFirst checks what each query finds first among tools of the names and
// descriptions given.
func foundFirst(t *testing.T, tools [][2]string, queries map[string]string) {
	t.Helper()
	var entries []Entry
	for _, d := range tools {
		definition, err := json.Marshal(map[string]string{"name": d[0], "description": d[1]})
		if err != nil {
			t.Fatal(err)
		}
		tool, err := NewTool("s", definition)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, Entry{Tool: tool, Class: Classify(tool, Untrusted, Override{})})
	}
	set := NewSet(entries)
	for query, want := range queries {
		if hits := set.Search(query); len(hits) == 0 || hits[0].Entry.ID.Tool != want {
			t.Errorf("%q finds %v, want %s first", query, ids(hits), want)
		}
	}
}

func TestWordsThatOnlyLookRelated(t *testing.T) {
	for _, apart := range [][2]string{{"production", "products"}, {"container", "contains"}, {"important", "imports"}, {"customer", "custom"}, {"rating", "rates"}, {"animation", "animals"}, {"directions", "directly"}, {"conversation", "conversion"}, {"authorize", "author"}} {
		if a, b := stem(apart[0]), stem(apart[1]); a == b {
			t.Errorf("%s and %s have one stem, %q", apart[0], apart[1], a)
		}
	}
	for _, same := range [][2]string{{"compare", "comparisons"}, {"converts", "conversion"}, {"notify", "notifications"}, {"registered", "registration"}, {"financial", "finance"}, {"deliver", "deliveries"}} {
		if a, b := stem(same[0]), stem(same[1]); a != b {
			t.Errorf("%s is %q and %s is %q, want one stem", same[0], a, same[1], b)
		}
	}
	foundFirst(t, [][2]string{{"import_rows", "Imports rows of a table."}, {"release_build", "Releases a build to the production environment."}, {"list_products", "Lists the products of a shop."}}, map[string]string{
		"release this to production": "release_build", "which products are there": "list_products",
	})
}

func TestWhatIsPublishedIsFoundOnTheWeb(t *testing.T) {
	tools := [][2]string{
		{"web_search", "Searches the web."}, {"match_history", "The history of a player's matches."}, {"get_page_content", "The content of a page of the wiki."},
		{"resize_image", "Makes an image smaller."}, {"list_latest_versions", "The latest versions of a package."},
	}
	foundFirst(t, tools, map[string]string{
		"find articles about the history of glass": "web_search", "show me recent photos of northern lights": "web_search",
		"get the content of the page on hiring": "get_page_content", "make the image smaller": "resize_image", "history of my matches": "match_history",
	})
	for text, want := range map[string]bool{
		"look for videos about bees": true, "any new insights from the dig?": true, "what are the latest developments in tidal power": true, "delete the images of the old site": false, "upload a photo for my profile": false, "article": false, "": false,
	} {
		if got := asksTheWeb(text); got != want {
			t.Errorf("%q asks the web: %v, want %v", text, got, want)
		}
	}
}

func TestQueriesInOtherLanguages(t *testing.T) {
	foundFirst(t, [][2]string{{"get_forecast", "The weather of a place."}, {"translate_text", "Translates a text."}, {"send_mail", "Sends an email."}, {"chazhao_wenjian", "在目录中查找文件"}}, map[string]string{
		"请告诉我奥斯陆今天的天气": "get_forecast", "¿Qué clima hace hoy en Lima?": "get_forecast", "把这句话翻译成瑞典语": "translate_text", "Übersetze diesen Satz, übersetzung bitte": "translate_text",
		"enviar un correo a mi hermana": "send_mail", "find a file in the folder": "chazhao_wenjian",
	})
}

func TestNeedsAreSplit(t *testing.T) {
	for query, want := range map[string]int{
		"send an email":                                      1,
		"get the weather, then email it to Per":              3, // the whole and two parts
		"read the file. Draw a chart of it and post it":      3, // "post it" says too little alone,
		"pull requests and issues":                           1,
		"rock and roll":                                      1,
		"create a branch, commit the change and open a pull": 4,
	} {
		if got := needs(query); len(got) != want {
			t.Errorf("%q: %d needs, want %d: %+v", query, len(got), want, got)
		}
	}
}

func TestWhatOneTaskTakesIsMostlyOfOneServer(t *testing.T) {
	var entries []Entry
	for _, id := range []ToolID{{"a", "get_orders"}, {"b", "list_orders"}, {"b", "refund_payment"}, {"c", "send_letter"}} {
		tool, err := NewTool(id.Server, []byte(`{"name":"`+id.Tool+`","description":"Of a shop."}`))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, Entry{Tool: tool})
	}
	set := NewSet(entries)
	if hits := set.Search("get orders"); len(hits) < 2 || hits[0].Entry.ID.Server != "a" {
		t.Errorf("one need finds %v, want the tool with its words first", ids(hits))
	}
	hits := set.Search("show the orders of today, then refund the payment")
	if got := ids(hits); len(got) < 3 || slices.Index(got, "b/list_orders") > slices.Index(got, "a/get_orders") {
		t.Errorf("two needs find %v, want the server that has tools for both before the other", got)
	}
}

func FuzzSearch(f *testing.F) {
	set := labelled(f)
	f.Add("send an email, then delete it")
	f.Add("查询 天气")
	f.Add(strings.Repeat("and then ", 100))
	f.Fuzz(func(t *testing.T, query string) {
		hits := set.Search(query)
		for i := 1; i < len(hits); i++ {
			if hits[i].Score > hits[i-1].Score {
				t.Errorf("%q: hits are not in order", query)
			}
		}
	})
}

// large is a set as big as the largest catalogs seen: 5,362 tools made from
// the labelled ones, with descriptions as long as real ones.
func large(tb testing.TB) []Entry {
	const tools = 5362
	base := labelled(tb).Entries()
	r := rand.New(rand.NewPCG(5362, 1))
	var vocabulary []string
	for _, e := range base {
		vocabulary = append(vocabulary, words(strings.ToLower(e.Description))...)
	}
	entries := make([]Entry, 0, tools)
	for i := range tools {
		e := base[i%len(base)]
		e.ID = ToolID{fmt.Sprintf("%s-%d", e.ID.Server, i/len(base)), e.ID.Tool}
		var d strings.Builder
		d.WriteString(e.Description)
		for range 20 + r.IntN(120) {
			d.WriteByte(' ')
			d.WriteString(vocabulary[r.IntN(len(vocabulary))])
		}
		e.Description = d.String()
		entries = append(entries, e)
	}
	return entries
}

func BenchmarkIndex(b *testing.B) {
	entries := large(b)
	b.ReportAllocs()
	for b.Loop() {
		newIndex(entries)
	}
}

func BenchmarkSearch(b *testing.B) {
	set := NewSet(large(b))
	set.Search("warm")
	for _, query := range []string{"delete the branch", "what is the weather in Oslo", "list every link of a website", "read the CSV file, draw a bar chart and post it to Slack"} {
		b.Run(strings.ReplaceAll(query, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				set.Search(query)
			}
		})
	}
}

func BenchmarkClassify(b *testing.B) {
	entries := large(b)
	i := 0
	for b.Loop() {
		Classify(entries[i%len(entries)].Tool, Untrusted, Override{})
		i++
	}
}

func BenchmarkScan(b *testing.B) {
	entries := large(b)
	i := 0
	for b.Loop() {
		Scan(entries[i%len(entries)].Tool, nil)
		i++
	}
}

func TestTheIndexIsSmall(t *testing.T) {
	entries := large(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ix := newIndex(entries)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if mib := float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / (1 << 20); mib > 60 {
		t.Errorf("the index of %d tools holds %.0f MiB, want at most 60", len(entries), mib)
	} else {
		t.Logf("%.1f MiB", mib)
	}
	runtime.KeepAlive(ix)
}
