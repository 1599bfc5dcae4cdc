package catalog

import (
	"math"
	"testing"
)

// TestEstimateIsNearARealTokenizer compares with counts of the o200k encoding
// that were recorded once with a full tokenizer (tiktoken-go/tokenizer
// v0.10.0), whose vocabulary is megabytes that this module need not carry.
func TestEstimateIsNearARealTokenizer(t *testing.T) {
	var real, estimated, n int
	var off, worst float64
	eachRow(t, "tokens.jsonl", func(row struct {
		Tokens int
		Text   string
	}, _ []byte) {
		e := EstimateTokens([]byte(row.Text))
		real, estimated, n = real+row.Tokens, estimated+e, n+1
		by := math.Abs(float64(e-row.Tokens)) / float64(row.Tokens)
		off += by
		if by > worst {
			worst = by
			t.Logf("off by %.2f: %d for %d in %.60q", by, e, row.Tokens, row.Text)
		}
	})
	ratio := float64(estimated) / float64(real)
	t.Logf("%d texts, %d tokens, estimated %d (%.3f), mean error %.3f, worst %.2f", n, real, estimated, ratio, off/float64(n), worst)
	if ratio < .93 || ratio > 1.07 || off/float64(n) > .08 || n < 100 {
		t.Errorf("the estimate is off: ratio %.3f, mean error %.3f over %d texts", ratio, off/float64(n), n)
	}
}

func TestEstimateTokensOfLittle(t *testing.T) {
	for text, want := range map[string]int{"": 0, "hello": 1, "hello world": 2, "{}": 1, "12345": 2} {
		if got := EstimateTokens([]byte(text)); got != want {
			t.Errorf("EstimateTokens(%q) = %d, want %d", text, got, want)
		}
	}
}

func FuzzEstimateTokens(f *testing.F) {
	f.Add([]byte(`{"a":"b c","d":[1,2]}`))
	f.Add([]byte("\xff\xfe 世界"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := EstimateTokens(b); n < 0 || n > 2*len(b)+1 {
			t.Errorf("%d tokens for %d bytes", n, len(b))
		}
	})
}
