package engagement_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/mcp-gate/mcp-gate/engagement"
)

func TestDeriveLines(t *testing.T) {
	const in = `{"reading":{"act":"modify"},"authority":{"autonomy":"manual"}}` + "\r\n" +
		`{"reading":{"act":"dance"}}` + "\n" +
		"\n" +
		`{"reading":{}} {}` + "\n" +
		`{"authority":{},"text":"hello"}` + "\n" +
		"{\"\xff\n" +
		`{}`
	r := NeutralReading()
	r.Act = ActModify
	want := []string{
		canonical(t, Derive(r, Authority{AutonomyManual, AttendanceInteractive}, true)),
		`{"error":"line: reading: act: unknown act \"dance\": want one of ` + wordList(Acts()) + `"}`,
		`{"error":"line: want an object, found nothing"}`,
		`{"error":"line: something follows the value"}`,
		`{"error":"line: unknown field \"text\": want one of authority, reading"}`,
		"", // whatever the parser says of bad UTF-8
		canonical(t, Derive(NeutralReading(), DefaultAuthority(), true)),
	}
	var out bytes.Buffer
	bad, err := DeriveLines(strings.NewReader(in), &out, true)
	if bad != 5 || err != nil {
		t.Errorf("%d bad lines, %v, want 5", bad, err)
	}
	got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), out.String())
	}
	for i := range want {
		if want[i] != "" && got[i] != want[i] {
			t.Errorf("line %d is %s\nwant %s", i, got[i], want[i])
		}
	}
	if !strings.HasPrefix(got[5], `{"error":"line: `) || !strings.Contains(got[5], "UTF-8") {
		t.Errorf("bad UTF-8 gives %s", got[5])
	}
}

func TestDeriveLinesWithoutASlice(t *testing.T) {
	var out bytes.Buffer
	if bad, err := DeriveLines(strings.NewReader(`{}`), &out, false); bad != 0 || err != nil {
		t.Errorf("%d bad lines, %v", bad, err)
	}
	if want := canonical(t, Derive(NeutralReading(), DefaultAuthority(), false)) + "\n"; out.String() != want {
		t.Errorf("got %s\nwant %s", out.String(), want)
	}
}

func TestMeetAndComposeLines(t *testing.T) {
	source := rand.New(rand.NewPCG(4, 0))
	var strands []Engagement
	var words []string
	for range 3 {
		e := Derive(randomReading(source), DefaultAuthority(), true)
		strands = append(strands, e)
		words = append(words, canonical(t, e))
	}
	in := "[" + strings.Join(words, ",") + "]\n[" + words[1] + "]\n[]\n[" + words[0] + ",{}]\n" + words[0] + "\n[" + words[0] + "\n"
	badArray := []string{
		`{"error":"line: engagement 1: missing limits, posture"}`,
		`{"error":"line: want an array of engagements, found \"{\""}`,
		`{"error":"line: `, // the parser's own words for an array without an end
	}
	for _, test := range []struct {
		name  string
		lines func(io.Reader, io.Writer) (int, error)
		bad   int
		want  []string
	}{
		{"meet", MeetLines, 4, append([]string{
			canonical(t, strands[0].Meet(strands[1]).Meet(strands[2])),
			words[1],
			`{"error":"meet: want at least one engagement, found none"}`,
		}, badArray...)},
		{"compose", ComposeLines, 3, append([]string{
			canonical(t, Compose(strands...)),
			words[1],
			canonical(t, General()),
		}, badArray...)},
	} {
		var out bytes.Buffer
		bad, err := test.lines(strings.NewReader(in), &out)
		if bad != test.bad || err != nil {
			t.Errorf("%s: %d bad lines, %v, want %d", test.name, bad, err, test.bad)
		}
		got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(got) != len(test.want) {
			t.Fatalf("%s: %d lines, want %d", test.name, len(got), len(test.want))
		}
		for i := range test.want {
			if !strings.HasPrefix(got[i], test.want[i]) {
				t.Errorf("%s: line %d is %s\nwant %s", test.name, i, got[i], test.want[i])
			}
		}
	}
}

func TestAnOverlongLineIsPassedOver(t *testing.T) {
	blanks := strings.Repeat(" ", MaxLine-2)
	in := blanks + "{}\n" + blanks + " {}\n" + "{}\n" + blanks + " {}"
	var out bytes.Buffer
	bad, err := DeriveLines(strings.NewReader(in), &out, true)
	if bad != 2 || err != nil {
		t.Errorf("%d bad lines, %v, want 2", bad, err)
	}
	one := canonical(t, Derive(NeutralReading(), DefaultAuthority(), true))
	tooLong := `{"error":"line: longer than 16777216 bytes"}`
	if want := strings.Join([]string{one, tooLong, one, tooLong, ""}, "\n"); out.String() != want {
		t.Errorf("got %s\nwant %s", out.String(), want)
	}
}

func TestNoLineGivesNoLine(t *testing.T) {
	var out bytes.Buffer
	if bad, err := DeriveLines(strings.NewReader(""), &out, true); bad != 0 || err != nil || out.Len() != 0 {
		t.Errorf("%d bad lines, %v, %q", bad, err, out.String())
	}
}

func TestAnAnswerDoesNotWaitForTheNextLine(t *testing.T) {
	in, give := io.Pipe()
	take, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := DeriveLines(in, out, true)
		out.CloseWithError(err)
		done <- err
	}()
	answer := make([]byte, 4096)
	for range 2 {
		if _, err := io.WriteString(give, "{}\n"); err != nil {
			t.Fatal(err)
		}
		n, err := take.Read(answer)
		if err != nil || !bytes.HasPrefix(answer[:n], []byte(`{"limits":`)) {
			t.Fatalf("read %s, %v", answer[:n], err)
		}
	}
	give.Close()
	if err := <-done; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestErrorsOfReadingAndWritingEndTheWork(t *testing.T) {
	broken := errors.New("broken")
	var out bytes.Buffer
	in := io.MultiReader(strings.NewReader("{}\nno\n{"), iotest.ErrReader(broken))
	bad, err := DeriveLines(in, &out, true)
	if bad != 1 || !errors.Is(err, broken) {
		t.Errorf("%d bad lines, %v, want 1 and what broke", bad, err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("%d lines were written before the end, want 2", n)
	}
	for _, in := range []string{"{}", "{}\n{}\n"} {
		if _, err := DeriveLines(strings.NewReader(in), brokenWriter{broken}, true); !errors.Is(err, broken) {
			t.Errorf("%q: %v, want what broke", in, err)
		}
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func canonical(t *testing.T, e Engagement) string {
	t.Helper()
	b, err := e.AppendCanonical(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wordList[T interface{ String() string }](all []T) string {
	var words []string
	for _, v := range all {
		words = append(words, v.String())
	}
	return strings.Join(words, ", ")
}
