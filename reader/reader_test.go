package reader_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/reader"
)

const (
	converse    = engagement.ActConverse
	answer      = engagement.ActAnswer
	locate      = engagement.ActLocate
	analyze     = engagement.ActAnalyze
	author      = engagement.ActAuthor
	modify      = engagement.ActModify
	operate     = engagement.ActOperate
	verify      = engagement.ActVerify
	orchestrate = engagement.ActOrchestrate
	govern      = engagement.ActGovern
)

func TestActOfARequest(t *testing.T) {
	tests := []struct {
		name, text string
		want       engagement.Act
	}{
		{"an imperative", "delete the old branch", operate},
		{"a polite question is an imperative", "could you please delete the old branch?", operate},
		{"would you mind is an imperative", "would you mind deleting the old branch?", operate},
		{"a wish is an imperative", "I'd like you to delete the old branch", operate},
		{"a passive is an imperative", "the old branch needs to be deleted", operate},
		{"could it be is an imperative", "could the header be renamed?", modify},
		{"how to is a question", "how do I delete a branch?", answer},
		{"should I is a question", "should I delete the branch?", answer},
		{"what if is a question", "what would happen if I deleted the branch?", answer},
		{"don't forget asks for it", "don't forget to send the invoice to Ada", operate},
		{"what is negated is not asked for", "draft a mail to Ada but don't send it", author},
		{"without is a negation", "clean up the module without deleting any tests", modify},
		{"the verb after the comma of a negation is asked for", "don't touch the tests, rename the helper function", modify},
		{"what else is asked beside a negation", "don't send it yet, just show me the draft", locate},
		{"while ends a negation", "make sure you don't break the tests while renaming the module", modify},
		{"a question to the assistant is a question", "what would you change in this code?", answer},
		{"or carries a negation on", "list the files, don't edit, move or delete any", locate},
		{"a quoted verb is not asked for", `what does "delete the branch" mean?`, answer},
		{"a verb in code is not asked for", "explain this\n```sql\nDELETE FROM users;\n```", analyze},
		{"creating a ticket operates", "create a Jira ticket for the login bug", operate},
		{"creating a document authors", "create a document about the login flow", author},
		{"creating a workflow orchestrates", "create a workflow that triages new issues", orchestrate},
		{"running tests verifies", "run the test suite", verify},
		{"running a command operates", "run npm install", operate},
		{"checking mail looks something up", "check my inbox", locate},
		{"checking a schema verifies", "check that the file matches the schema", verify},
		{"finding and then fixing modifies", "find the bug in parser.go and fix it", modify},
		{"reading and then comparing analyses", "read both files and compare them", analyze},
		{"recurring work is orchestrated", "every morning, post the open incidents to #ops", orchestrate},
		{"a standing wish governs", "from now on always answer in French", govern},
		{"a ban on acting alone governs", "never push to main without asking me", govern},
		{"giving access governs", "give Lena write access to the wiki", govern},
		{"what was not understood but is done to a thing operates", "yeet the pods", operate},
		{"a verb whose other part follows its object", "keep the customer posted", operate},
		{"what is to be made to work is mended", "get the build working again", modify},
		{"a line is dropped to somebody", "drop Ada a line", operate},
		{"never with a past form lays down no rule", "interesting, never knew that", converse},
		{"never with a plain one does", "never use tabs", govern},
		{"would it be is a question", "would it be wise to delete the branch?", answer},
		{"a noun made a verb operates", "discount the order", operate},
		{"a thing of the house alone is an order", "next song", operate},
		{"stop with a verb is no assent", "stop using tabs", govern},
		{"opening an account operates", "open an account for the customer", operate},
		{"a misspelled verb is read", "pleas delte the old branch", operate},
		{"a swapped letter is read", "depoly the api to staging", operate},
		{"a statement of what is broken asks for a fix", "typo in the README, line 3", modify},
		{"thanks is talk", "thanks a lot, that helped", converse},
		{"assent is talk", "yes, go on", converse},
		{"assent with an order is an order", "yes, delete it", operate},
		{"a place is looked for", "where is the retry policy defined?", locate},
		{"a reason is analysed", "why is checkout so slow?", analyze},
		{"German", "Lösche bitte die alte Datei", modify},
		{"French", "envoie un courriel à Paul", operate},
		{"Spanish", "busca los correos de Ana", locate},
		{"Chinese", "请删除这个文件", modify},
		{"Japanese", "ファイルを全部消して", modify},
		{"Korean", "모든 파일을 삭제해줘", modify},
		{"a thing made otherwise is changed", "make page 3 less dull", modify},
		{"a thing made anew is not", "make a shorter version of the summary", engagement.ActAuthor},
		{"an arrow tells what becomes of a thing", "timeout in the config → 30", modify},
		{"who must agree is a rule", "nothing ships without my approval", engagement.ActGovern},
		{"a ban without a verb is a rule", "no merges before noon", engagement.ActGovern},
		{"who alone may is a rule", "the price list should only be editable by Ines", engagement.ActGovern},
		{"mails are answered", "answer the two oldest mails", operate},
		{"a verb around its object", "tear the sandbox down", operate},
		{"money that is given back", "give the buyer her money back", operate},
		{"what somebody does already is no order", "the sheet where we assign desks", locate},
		{"a verb that ends a noun of two words is none", "the Notion page about travel", locate},
		{"what is put back is changed", "restore the old folder from the archive", modify},
		{"a person reached in chat", "hit Ravi up about the keys", operate},
		{"a thing moved in time", "pull the retro forward", operate},
		{"a command of a package manager", "npm i zod", operate},
		{"a cell made to stand out", "highlight all empty cells", modify},
		{"a vote is cast", "upvote her answer", operate},
		{"which ones are meant is looked up", "every booking from the Dutch group", locate},
		{"a noun with its adjective is no order", "the signed copy of the letter", locate},
		{"a ban on everybody is a rule", "nobody deploys after four", govern},
		{"what is jotted down is kept", "jot down eggs and bread for the shop", engagement.ActAuthor},
		{"a word of chat is a question word", "wats the delay on line 4", engagement.ActAnswer},
	}
	r := newReader(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.Read(tt.text); got.Act != tt.want {
				t.Errorf("%q: act %v, want %v (alternates %v)", tt.text, got.Act, tt.want, got.AlternateActs)
			}
		})
	}
}

func TestNamedThingsAddDomainsWhateverTheAct(t *testing.T) {
	tests := []struct {
		name, text string
		want       engagement.Domain
	}{
		{"a pod", "write a haiku about the pod that crashed", engagement.DomainObservability},
		{"a pull request", "thank the author of the pull request", engagement.DomainVCS},
		{"a message", "why did the message sound harsh?", engagement.DomainMessaging},
		{"a spreadsheet", "is the spreadsheet right?", engagement.DomainDocuments},
		{"a channel by its name", "what is new in #launch", engagement.DomainMessaging},
		{"an issue by its number", "summarize #4711", engagement.DomainVCS},
		{"a ticket by its key", "fix the wording of ENG-442", engagement.DomainLiveData},
		{"an address", "rewrite https://example.com/about", engagement.DomainWeb},
		{"a mail address", "is ada@example.com right?", engagement.DomainMessaging},
		{"a source file", "what is in main.go?", engagement.DomainCodeExec},
		{"code in a fence", "is this fine?\n```\nx = f(1)\n```", engagement.DomainCodeExec},
		{"a calculation", "what is 17.5% of 3480?", engagement.DomainCodeExec},
		{"a time of day", "move my 2pm with Jo", engagement.DomainOrchestration},
		{"something negated", "summarize it, don't send any mail", engagement.DomainMessaging},
		{"something in quotation marks", `what does "kubernetes pod" mean?`, engagement.DomainObservability},
		{"code in a line of prose", "this prints 0, why? const avg = total / n", engagement.DomainCodeExec},
		{"a fault in a line of prose", "ValueError: bad date, what now", engagement.DomainCodeExec},
		{"who changed a thing", "who touched the parser last", engagement.DomainVCS},
		{"a state of running", "are we back up", engagement.DomainObservability},
		{"a run that may be over", "is the import over", engagement.DomainOrchestration},
		{"what is due", "anything due this week", engagement.DomainOrchestration},
		{"what was put into a release", "what went into 5.6", engagement.DomainVCS},
		{"errors after a change", "are errors gone since the change", engagement.DomainObservability},
		{"a visit", "when is my next dentist visit", engagement.DomainOrchestration},
		{"what somebody says", "what is Ines saying about the venue", engagement.DomainMessaging},
		{"what happens when a value is passed", "shout if gold drops below 2000", engagement.DomainOrchestration},
		{"a sum in words", "how many seconds are in a week", engagement.DomainCodeExec},
		{"a thing moved to a day", "move the launch to the 12th", engagement.DomainOrchestration},
		{"a number that we reached", "how many points did we finish", engagement.DomainOrchestration},
		{"a slip of the pen", "any msgs from Ivo", engagement.DomainMessaging},
		{"a cited source", "write a briefing with sources", engagement.DomainLiveData},
	}
	r := newReader(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := r.Read(tt.text)
			e := engagement.Derive(got, engagement.DefaultAuthority(), got.Confidence >= engagement.DefaultBars().Slice)
			if !e.Limits.RequiredDomains.Has(tt.want) {
				t.Errorf("%q: %v is missing in %v", tt.text, tt.want, e.Limits.RequiredDomains.Set())
			}
		})
	}
}

// What is meant may be kept anywhere where nothing tells; a question that anyone
// could look up is not such a text.
func TestWhatNothingPlacesKeepsEveryDomain(t *testing.T) {
	r := newReader(t)
	kept := func(text string) int {
		got := r.Read(text)
		e := engagement.Derive(got, engagement.DefaultAuthority(), got.Confidence >= engagement.DefaultBars().Slice)
		return len(e.Limits.RequiredDomains.Set().List())
	}
	for _, text := range []string{"did Nuria agree?", "where did we leave that", "what did the others want", "we settled on the second one after all"} {
		if n := kept(text); n != len(engagement.Domains()) {
			t.Errorf("%q keeps %d domains, want all", text, n)
		}
	}
	for _, text := range []string{"which sort is stable", "thanks, bye"} {
		if n := kept(text); n > 6 {
			t.Errorf("%q keeps %d domains", text, n)
		}
	}
}

func TestStakes(t *testing.T) {
	tests := []struct {
		name, text string
		least      engagement.Stakes
	}{
		{"sending cannot be undone", "send Ada the numbers", engagement.StakesIrreversible},
		{"paying cannot be undone", "pay the invoice", engagement.StakesIrreversible},
		{"deleting cannot be undone", "drop the users table", engagement.StakesIrreversible},
		{"a deployment is costly", "deploy to staging", engagement.StakesCostly},
		{"keys that are rotated lock out who has the old ones", "rotate the keys", engagement.StakesCostly},
		{"deleting in Japanese cannot be undone either", "すべてのファイルを削除して", engagement.StakesIrreversible},
		{"a deployment to production is worse", "deploy to production", engagement.StakesIrreversible},
		{"a force push cannot be undone", "force push to origin/main", engagement.StakesIrreversible},
		{"money raises it", "apply a $50 credit to the account", engagement.StakesCostly},
		{"taking back what was agreed cannot be undone", "back out of the lease", engagement.StakesIrreversible},
		{"a signature cannot be undone", "sign the lease", engagement.StakesIrreversible},
		{"putting a page live cannot be undone", "put the page live", engagement.StakesIrreversible},
		{"a currency in words is money", "give her a credit of ten euros", engagement.StakesCostly},
		{"access is costly", "make Priya an admin", engagement.StakesReversible},
		{"an edit can be undone", "rename the variable", engagement.StakesReversible},
	}
	r := newReader(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.Read(tt.text).Stakes; got < tt.least {
				t.Errorf("%q: stakes %v, want at least %v", tt.text, got, tt.least)
			}
		})
	}
	for name, text := range map[string]string{
		"a question about deleting": "how do I delete a branch?",
		"a draft that is not sent":  "what would you answer him? don't send anything",
		"looking something up":      "show me the refunds of last week",
	} {
		t.Run(name+" costs nothing", func(t *testing.T) {
			if got := r.Read(text).Stakes; got != engagement.StakesInert {
				t.Errorf("%q: stakes %v, want inert", text, got)
			}
		})
	}
}

func TestTextThatNamesAFileToWriteMayModify(t *testing.T) {
	r := newReader(t)
	for _, text := range []string{
		"write a summary of the meeting to notes/today.md",
		"summarize the article and save it as summary.md",
		"make a web page about owls, saved at site/owls.html",
		"draft the plan in plan.md",
		"pull the readings of may into a spreadsheet",
		"we need a cache in front of the parser",
	} {
		if got := r.Read(text); !got.Acts().Has(modify) {
			t.Errorf("%q: acts %v, want modify among them", text, got.Acts())
		}
	}
	if got := r.Read("summarize notes.md for me"); got.Acts().Has(modify) {
		t.Errorf("a file that is only read: acts %v", got.Acts())
	}
}

func TestOtherAxes(t *testing.T) {
	r := newReader(t)
	base := engagement.NeutralReading()
	tests := []struct {
		name, text string
		axis       func(engagement.Reading) any
		want       any
	}{
		{"every day is durable", "every day at 9 check the backups", horizon, engagement.HorizonDurable},
		{"monitoring is durable", "monitor the queue depth", horizon, engagement.HorizonDurable},
		{"one after another lasts the session", "go through the modules one by one and fix the warnings", horizon, engagement.HorizonSession},
		{"a single edit is a turn", "rename the variable", horizon, engagement.HorizonTurn},
		{"a greeting is immediate", "hello there", horizon, engagement.HorizonImmediate},
		{"sources are cited", "compare the two laws, with sources", evidence, engagement.EvidenceCited},
		{"making sure verifies", "upgrade react and make sure the tests pass", evidence, engagement.EvidenceVerified},
		{"an audit is audited", "list who has access, for the auditor", evidence, engagement.EvidenceAudited},
		{"nothing said, nothing asked", "rename the variable", evidence, engagement.EvidenceNone},
		{"while I sleep is unattended", "work through the backlog while I sleep", attendance, engagement.AttendanceUnattended},
		{"asking first is supervised", "refactor the module, but show me the diff first", attendance, engagement.AttendanceSupervised},
		{"nothing said, somebody is there", "refactor the module", attendance, engagement.AttendanceInteractive},
		{"no object is underspecified", "improve it", clarity, engagement.ClarityUnderspecified},
		{"doubt is ambiguous", "I'm not sure which, delete one of the branches", clarity, engagement.ClarityAmbiguous},
		{"a plain request is clear", "rename the variable", clarity, engagement.ClarityClear},
		{"a photo is an image", "what is in this photo?", modalities, base.Modalities.With(engagement.ModalityImage)},
		{"a voice memo is audio", "transcribe the voice memo", modalities, base.Modalities.With(engagement.ModalityAudio)},
		{"a screencast is video", "summarize the screencast", modalities, base.Modalities.With(engagement.ModalityVideo)},
		{"a name with an ending is a file", "read report.pdf", modalities, base.Modalities.With(engagement.ModalityFile)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.axis(r.Read(tt.text)); got != tt.want {
				t.Errorf("%q: got %v, want %v", tt.text, got, tt.want)
			}
		})
	}
}

func horizon(r engagement.Reading) any    { return r.Horizon }
func evidence(r engagement.Reading) any   { return r.Evidence }
func attendance(r engagement.Reading) any { return r.Attendance }
func clarity(r engagement.Reading) any    { return r.Clarity }
func modalities(r engagement.Reading) any { return r.Modalities }

func TestConfidenceSaysHowMuchWasUnderstood(t *testing.T) {
	tests := []struct {
		name      string
		low, high float64
		texts     []string
	}{
		{"assent asks for nothing by itself", 0, .19, []string{"yes, go on", "ok", "sure, do it", "continue"}},
		{"what has no words cannot be read", 0, .19, []string{"", "   ", "???", "🦄🦄", "\x00\xff\xfe", "xqzt wvbn kjhgf"}},
		{"words without an act or object take nothing away", .5, .5, []string{"my aunt is quite tall"}},
		{"an act or an object is enough for a slice", .5, 1, []string{"logs for checkout", "my tickets", "yeet the pods", "Lösche die Datei"}},
		{"a plain request", .7, 1, []string{"delete the branch", "please send Ada the report", "what is the weather in Oslo?"}},
	}
	r := newReader(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, text := range tt.texts {
				if got := r.Read(text).Confidence; got < tt.low || got > tt.high {
					t.Errorf("%q: confidence %.2f, want %.2f to %.2f", text, got, tt.low, tt.high)
				}
			}
		})
	}
}

func TestALongTextIsReadAtBothEnds(t *testing.T) {
	r := newReader(t)
	paste := strings.Repeat("lorem ipsum dolor sit amet. ", 4000)
	for where, text := range map[string]string{
		"before": "delete the old branch\n\n" + paste,
		"after":  paste + "\n\ndelete the old branch",
	} {
		if got := r.Read(text); got.Act != operate {
			t.Errorf("request %s the paste: act %v, want operate", where, got.Act)
		}
	}
}

func TestAReaderIsSharedSafely(t *testing.T) {
	r := newReader(t)
	want := r.Read("deploy the api to staging")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if got := r.Read("deploy the api to staging"); got != want {
					t.Errorf("got %v, want %v", got, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestReadersAgree(t *testing.T) {
	a, b := newReader(t), newReader(t)
	for _, row := range rows(t, "dev.jsonl") {
		if x, y := a.Read(row.Text), b.Read(row.Text); x != y {
			t.Errorf("%q: %v and %v", row.Text, x, y)
		}
	}
}

func FuzzRead(f *testing.F) {
	r := newReader(f)
	for _, row := range rows(f, "dev.jsonl") {
		f.Add(row.Text)
	}
	f.Add("```\n")
	f.Add("\xff'\"“ #@/.\\:// -- (a,b) ENG-1 2pm")
	f.Add("请把文件发送给王")
	f.Fuzz(func(t *testing.T, text string) {
		got := r.Read(text)
		if again := r.Read(text); got != again {
			t.Fatalf("%q: %v, then %v", text, got, again)
		}
		if got.Confidence < 0 || got.Confidence > 1 {
			t.Fatalf("%q: confidence %v", text, got.Confidence)
		}
		if _, err := got.MarshalJSON(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	r := newReader(b)
	all := rows(b, "dev.jsonl")
	long := strings.Repeat("Please compare the invoice totals with qwertzy numbers in the ledger, then send Ada a note. ", 200)
	b.Run("a typical request", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			r.Read(all[i%len(all)].Text)
		}
	})
	b.Run("the longest", func(b *testing.B) {
		for b.Loop() {
			r.Read(long)
		}
	})
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := reader.New(); err != nil {
			b.Fatal(err)
		}
	}
}
