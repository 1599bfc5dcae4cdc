package engagement_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
)

const benchLine = `{"reading":{"act":"operate","alternate_acts":["modify"],"horizon":"turn","stakes":"irreversible",` +
	`"evidence":"cited","clarity":"ambiguous","attendance":"interactive","modalities":["text"],"domains":["vcs"],"confidence":0.9},` +
	`"authority":{"autonomy":"delegated","attendance":"interactive"}}` + "\n"

// BenchmarkDeriveLines is the whole of `engagement derive` but for the process.
// One operation is one line; the command owes 20,000 of them a second.
func BenchmarkDeriveLines(b *testing.B) {
	in := bytes.NewReader(bytes.Repeat([]byte(benchLine), b.N))
	b.ReportAllocs()
	b.ResetTimer()
	if bad, err := engagement.DeriveLines(in, io.Discard, true); bad != 0 || err != nil {
		b.Fatalf("%d bad lines, %v", bad, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

func BenchmarkDerive(b *testing.B) {
	r, a := engagement.NeutralReading(), engagement.DefaultAuthority()
	r.Act, r.Stakes = engagement.ActOperate, engagement.StakesIrreversible
	b.ReportAllocs()
	for b.Loop() {
		engagement.Derive(r, a, true)
	}
}

func BenchmarkLimitsMeet(b *testing.B) {
	x, y := engagement.Unrestricted(), engagement.Orienting().Limits
	b.ReportAllocs()
	for b.Loop() {
		x = x.Meet(y)
	}
}
