package strictjson

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// differently are the rows of the suite that are refused although its grammar
// takes them: readers do not agree on which of two values counts.
var differently = []string{"y_object_duplicated_key", "y_object_duplicated_key_and_value"}

// TestJSONTestSuite holds the parser against the suite's own column: y is
// taken, n is refused, i may be either. Each row is looked at alone and as a
// value within a message.
func TestJSONTestSuite(t *testing.T) {
	raw, err := os.ReadFile("testdata/jsontestsuite.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		times, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatal(err)
		}
		text, err := strconv.Unquote(fields[2])
		if err != nil {
			t.Fatalf("%s: %v", fields[0], err)
		}
		text = strings.Repeat(text, times)
		rows++
		for _, whole := range []string{text, `{"a":` + text + `}`} {
			err := Check([]byte(whole))
			switch {
			case fields[0][0] == 'y' && err != nil && !slices.Contains(differently, fields[0]):
				t.Errorf("%s is refused: %v", fields[0], err)
			case (fields[0][0] == 'n' || slices.Contains(differently, fields[0])) && err == nil:
				t.Errorf("%s is taken: %.60q", fields[0], whole)
			}
		}
	}
	if rows != 318 {
		t.Errorf("%d rows", rows)
	}
}
