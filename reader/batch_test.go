package reader_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadLinesAnswersEachLineInItsPlace(t *testing.T) {
	r := newReader(t)
	in := `{"id":"a","text":"hello"}

{"id":12345678901234567890,"text":"send <b> & go"}
not json
{"id":"c"}
{"id":"d","text":"delete the branch","more":1}`
	var out strings.Builder
	bad, err := r.ReadLines(strings.NewReader(in), &out)
	if err != nil || bad != 2 {
		t.Fatalf("bad %d, err %v; want 2, nil", bad, err)
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	want := []string{
		`{"id":"a","reading":{"act":"converse"`,
		`{"id":12345678901234567890,"reading":{"act":"operate"`,
		`{"error":"parse request`,
		`{"id":"c","error":"request has no text"}`,
		`{"id":"d","reading":{"act":"operate"`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), out.String())
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d: %s\nwant it to begin with %s", i+1, line, want[i])
		}
	}
}

func TestALineThatIsTooLongIsAnErrorInItsPlace(t *testing.T) {
	r := newReader(t)
	in := `{"text":"` + strings.Repeat("x", 5<<20) + "\"}\n" + `{"id":1,"text":"hello"}`
	var out strings.Builder
	bad, err := r.ReadLines(strings.NewReader(in), &out)
	if err != nil || bad != 1 {
		t.Fatalf("bad %d, err %v; want 1, nil", bad, err)
	}
	if got := out.String(); !strings.HasPrefix(got, `{"error":"line is longer`) || !strings.Contains(got, "\n{\"id\":1,") {
		t.Errorf("got %.200s", got)
	}
}

func TestReadLinesReportsAFailingReaderAndWriter(t *testing.T) {
	r := newReader(t)
	broken := errors.New("broken pipe")
	var out strings.Builder
	if _, err := r.ReadLines(iotest.ErrReader(broken), &out); !errors.Is(err, broken) {
		t.Errorf("reader: got %v", err)
	}
	if _, err := r.ReadLines(strings.NewReader(`{"id":1,"text":"hello"}`), failing{broken}); !errors.Is(err, broken) {
		t.Errorf("writer: got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
