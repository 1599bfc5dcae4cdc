package engagement

// Reading is what a request was understood to be, on every axis. It says what the
// work needs and grants nothing. Values are comparable with ==.
//
// A field without a value is an unknown, which [Derive] takes for no ground to
// loosen anything; start from [NeutralReading] and change what is known.
type Reading struct {
	Act           Act
	AlternateActs ActSet // other acts that the words may also mean
	Horizon       Horizon
	Stakes        Stakes
	Evidence      Evidence
	Clarity       Clarity
	Attendance    Attendance
	Modalities    ModalitySet // what the work must perceive
	Domains       DomainSet   // what the request itself named, beyond what its acts imply
	Confidence    float64     // from 0 to 1
}

// NeutralReading returns the reading that assumes nothing: a question about text,
// answered in this turn with a person at hand, with no confidence at all.
func NeutralReading() Reading {
	return Reading{
		Act:        ActAnswer,
		Horizon:    HorizonTurn,
		Stakes:     StakesInert,
		Evidence:   EvidenceNone,
		Clarity:    ClarityClear,
		Attendance: AttendanceInteractive,
		Modalities: ModalitiesOf(ModalityText),
	}
}

// Acts returns the primary act and every alternate.
func (r Reading) Acts() ActSet { return r.AlternateActs.With(r.Act) }

// anyEffectful reports whether one of the acts is done to change something.
func (r Reading) anyEffectful() bool { return !r.Acts().Intersect(effectful).Empty() }

// needsSources reports whether claims have to name where they come from.
func (r Reading) needsSources() bool { return r.Evidence >= EvidenceCited }
