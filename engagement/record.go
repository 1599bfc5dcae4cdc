package engagement

import (
	"encoding"

	"github.com/go-json-experiment/json/jsontext"
)

// The JSON records. Reading is strict: a member that is unknown, missing without
// leave or given twice is an error, and so are an unknown word, a null where none
// belongs, invalid UTF-8 and anything after the record. Writing gives canonical
// JSON (RFC 8785), and an error for a value that has no word.
//
// Each record is one table, used both ways, so that what is written can be read.
// A table lists its fields in the order of their names, which canonical JSON asks for.

var readingRecord = record[Reading]{
	noun:    "reading",
	neutral: NeutralReading,
	partial: true,
	fields: []field[Reading]{
		word("act", func(r *Reading) text { return &r.Act }),
		part("alternate_acts", func(r *Reading) value { return &r.AlternateActs }),
		word("attendance", func(r *Reading) text { return &r.Attendance }),
		word("clarity", func(r *Reading) text { return &r.Clarity }),
		part("confidence", func(r *Reading) value { return (*confidence)(&r.Confidence) }),
		part("domains", func(r *Reading) value { return &r.Domains }),
		word("evidence", func(r *Reading) text { return &r.Evidence }),
		word("horizon", func(r *Reading) text { return &r.Horizon }),
		part("modalities", func(r *Reading) value { return &r.Modalities }),
		word("stakes", func(r *Reading) text { return &r.Stakes }),
	},
}

var authorityRecord = record[Authority]{
	noun:    "authority",
	neutral: DefaultAuthority,
	partial: true,
	fields: []field[Authority]{
		word("attendance", func(a *Authority) text { return &a.Attendance }),
		word("autonomy", func(a *Authority) text { return &a.Autonomy }),
	},
}

var engagementRecord = record[Engagement]{
	noun:    "engagement",
	neutral: func() Engagement { return Engagement{Posture: postureRecord.neutral()} },
	fields: []field[Engagement]{
		nested("limits", func(e *Engagement) *Limits { return &e.Limits }, &limitsRecord),
		nested("posture", func(e *Engagement) *Posture { return &e.Posture }, &postureRecord),
	},
}

var limitsRecord = record[Limits]{
	noun:    "limits",
	neutral: func() Limits { return Limits{} },
	fields: []field[Limits]{
		word("approval_ceiling", func(l *Limits) text { return &l.ApprovalCeiling }),
		part("egress", func(l *Limits) value { return &l.Egress }),
		word("least_satisfaction", func(l *Limits) text { return &l.LeastSatisfaction }),
		word("permission", func(l *Limits) text { return &l.Permission }),
		part("required_domains", func(l *Limits) value { return &l.RequiredDomains }),
		part("required_modalities", func(l *Limits) value { return &l.RequiredModalities }),
		nested("spend", func(l *Limits) *Spend { return &l.Spend }, &record[Spend]{
			fields: []field[Spend]{
				bound("calls", func(s *Spend) **int64 { return &s.Calls }),
				bound("result_bytes", func(s *Spend) **int64 { return &s.ResultBytes }),
			},
		}),
	},
}

var postureRecord = record[Posture]{
	noun:    "posture",
	neutral: func() Posture { return Posture{Stance: StanceDirectAnswer} },
	fields: []field[Posture]{
		part("checkpoint_before_effect", func(p *Posture) value { return (*flag)(&p.CheckpointBeforeEffect) }),
		word("clarify", func(p *Posture) text { return &p.Clarify }),
		word("context", func(p *Posture) text { return &p.Context }),
		nested("delivery", func(p *Posture) *Delivery { return &p.Delivery }, &record[Delivery]{
			fields: []field[Delivery]{
				word("cadence", func(d *Delivery) text { return &d.Cadence }),
				word("shape", func(d *Delivery) text { return &d.Shape }),
				word("urgency", func(d *Delivery) text { return &d.Urgency }),
			},
		}),
		nested("demand", func(p *Posture) *Demand { return &p.Demand }, &record[Demand]{
			fields: []field[Demand]{
				part("evidence_required", func(d *Demand) value { return (*flag)(&d.EvidenceRequired) }),
				part("reasoning_required", func(d *Demand) value { return (*flag)(&d.ReasoningRequired) }),
				part("structured_output", func(d *Demand) value { return (*flag)(&d.StructuredOutput) }),
			},
		}),
		word("epistemic_stance", func(p *Posture) text { return &p.Stance }).optional(nil),
		word("gate_fallback", func(p *Posture) text { return &p.GateFallback }),
		word("hil", func(p *Posture) text { return &p.HIL }),
		part("managed", func(p *Posture) value { return (*flag)(&p.Managed) }),
		part("note", func(p *Posture) value { return (*note)(&p.Note) }).optional(
			func(p *Posture) bool { return p.Note == "" }),
		part("open_commitment", func(p *Posture) value { return (*flag)(&p.OpenCommitment) }),
		word("stop", func(p *Posture) text { return &p.Stop }),
	},
}

// AppendCanonical appends the record of e as canonical JSON, without a line end.
func (e Engagement) AppendCanonical(dst []byte) ([]byte, error) {
	return engagementRecord.appendTo(dst, &e)
}

func (r Reading) MarshalJSON() ([]byte, error)    { return readingRecord.marshal(&r) }
func (a Authority) MarshalJSON() ([]byte, error)  { return authorityRecord.marshal(&a) }
func (a Limits) MarshalJSON() ([]byte, error)     { return limitsRecord.marshal(&a) }
func (a Posture) MarshalJSON() ([]byte, error)    { return postureRecord.marshal(&a) }
func (e Engagement) MarshalJSON() ([]byte, error) { return engagementRecord.marshal(&e) }

// UnmarshalJSON reads one record; a field that is left out is that of the [NeutralReading].
func (r *Reading) UnmarshalJSON(b []byte) error { return readingRecord.unmarshal(b, r) }

// UnmarshalJSON reads one record; a field that is left out is that of the [DefaultAuthority].
func (a *Authority) UnmarshalJSON(b []byte) error { return authorityRecord.unmarshal(b, a) }

// UnmarshalJSON reads one record, of which every field must be there.
func (a *Limits) UnmarshalJSON(b []byte) error { return limitsRecord.unmarshal(b, a) }

// UnmarshalJSON reads one record, of which only stance and note may be left out.
func (a *Posture) UnmarshalJSON(b []byte) error { return postureRecord.unmarshal(b, a) }

// UnmarshalJSON reads one record, of which only stance and note may be left out.
func (e *Engagement) UnmarshalJSON(b []byte) error { return engagementRecord.unmarshal(b, e) }

// Set and Required are arrays of words, in the order of the vocabulary when they
// are written and in any order when they are read; all domains are "all".

func (s Set[T]) MarshalJSON() ([]byte, error)    { return s.appendTo(nil) }
func (s *Set[T]) UnmarshalJSON(b []byte) error   { return unmarshalValue(b, s) }
func (r Required) MarshalJSON() ([]byte, error)  { return r.appendTo(nil) }
func (r *Required) UnmarshalJSON(b []byte) error { return unmarshalValue(b, r) }

// text is a pointer to a word.
type text interface {
	encoding.TextMarshaler
	encoding.TextUnmarshaler
}

// value is a pointer to anything else that a field may hold.
type value interface {
	readFrom(*jsontext.Decoder) error
	appendTo([]byte) ([]byte, error)
}
