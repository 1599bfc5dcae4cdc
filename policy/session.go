package policy

import (
	"github.com/mcp-gate/mcp-gate/engagement"
)

// Sources is everything a session's authority comes from, unmerged: one value for
// each origin, so that a newer one can take the place of an older one of its own
// kind and nothing else. Only [Sources.Combine] merges them, and only by Meet.
// The owner's limits are not here, since they differ from server to server; see
// [Combined.Under].
type Sources struct {
	Scope     Scope                // of the caller's token; zero is read
	Authority engagement.Authority // from the launch alone
	Launch    *engagement.Reading  // what the session was started for; nil where nobody said
	Prompt    *engagement.Reading  // the latest prompt in force; set by WithPrompt
	Engage    *engagement.Reading  // the agent's latest word in force; set by WithEngage
	Enforce   bool                 // only what the launch requires may be used
	Bars      engagement.Bars      // how sure a prompt's reading must be
	Parent    *Combined            // of the session this one works for, as it is now; nil for none
}

// WithPrompt returns the sources after a prompt was read, and whether the reading
// is in force. One that only converses, or is not sure enough to say anything
// ("yes, go on"), leaves what is in force; any other takes the place of the last
// prompt and ends what the agent declared under it.
func (s Sources) WithPrompt(r engagement.Reading) (Sources, bool) {
	// Asked this way round, a confidence that is not a number says nothing.
	if r.Act == engagement.ActConverse || !(r.Confidence >= s.Bars.Orient) {
		return s, false
	}
	s.Prompt, s.Engage = &r, nil
	return s, true
}

// WithEngage returns the sources after the agent declared a reading, which takes
// the place of its last one.
func (s Sources) WithEngage(r engagement.Reading) Sources {
	s.Engage = &r
	return s
}

// Combined is the authority of a session, the owner's limits apart.
type Combined struct {
	Engagement     engagement.Engagement `json:"engagement"`
	Authority      engagement.Authority  `json:"authority"`
	Stakes         engagement.Stakes     `json:"stakes"`          // the highest of all readings in force
	PermissionFrom Origin                `json:"permission_from"` // whose ceiling is the lowest: the token's or the parent's
}

// Combine merges the sources. Nothing that a prompt or an agent says widens what
// the launch gave: limits meet, postures meet, and stakes only rise. Three things
// are exceptions, since they are no power:
//
//   - the mode of keeping a person in the loop rises only where a reading insists
//     ([engagement.LeastHIL]); that a reading could do with less says nothing
//   - shape, stance and context are those of the newest reading
//   - required domains are what the newest reading needs, which may be other
//     domains than before; where the slice is enforced, the launch's alone
func (s Sources) Combine() Combined {
	out := s.launched()
	domains := out.Engagement.Limits.RequiredDomains
	for _, layer := range []struct {
		reading *engagement.Reading
		source  engagement.Source
	}{{s.Prompt, engagement.SourceLexical}, {s.Engage, engagement.SourceDeclared}} {
		if layer.reading == nil {
			continue
		}
		newest := s.Bars.Engage(*layer.reading, out.Authority, layer.source)
		if !s.Enforce {
			domains = newest.Limits.RequiredDomains
		}
		out.add(*layer.reading, newest)
	}
	out.Engagement.Limits.RequiredDomains = domains
	if s.Parent != nil {
		out.meet(*s.Parent)
	}
	return out
}

// launched returns what the session was started with, under its token's scope
// and the authority in force.
func (s Sources) launched() Combined {
	out := Combined{Authority: s.Authority, Stakes: engagement.StakesInert, PermissionFrom: OriginToken}
	if s.Parent != nil {
		out.Authority = meetAuthority(s.Authority, s.Parent.Authority)
	}
	if s.Launch == nil {
		out.Engagement = engagement.Unread(out.Authority)
	} else {
		out.Engagement = s.Bars.Engage(*s.Launch, out.Authority, engagement.SourceDeclared)
		out.Stakes = known(s.Launch.Stakes)
	}
	out.Engagement.Limits = out.Engagement.Limits.Meet(s.Scope.Limits())
	return out
}

// add lets a newer reading add caution.
func (c *Combined) add(r engagement.Reading, newest engagement.Engagement) {
	c.Engagement = engagement.Engagement{
		Limits:  c.Engagement.Limits.Meet(newest.Limits),
		Posture: c.Engagement.Posture.Refine(newest.Posture, engagement.LeastHIL(r, c.Authority)),
	}
	c.Stakes = max(c.Stakes, known(r.Stakes))
}

// meet keeps the session inside its parent's authority.
func (c *Combined) meet(parent Combined) {
	if parent.Engagement.Limits.Permission < c.Engagement.Limits.Permission {
		c.PermissionFrom = OriginParent
	}
	c.Engagement = c.Engagement.Meet(parent.Engagement)
	c.Stakes = max(c.Stakes, known(parent.Stakes))
}

// known takes stakes that nobody stated for the highest.
func known(s engagement.Stakes) engagement.Stakes {
	if s == 0 {
		return engagement.StakesIrreversible
	}
	return s
}

// meetAuthority returns the authority that exceeds neither: the lesser autonomy,
// and the attendance in which less can be asked. What is unknown stays unknown.
func meetAuthority(a, b engagement.Authority) engagement.Authority {
	met := engagement.Authority{Autonomy: min(a.Autonomy, b.Autonomy)}
	if a.Attendance != 0 && b.Attendance != 0 {
		met.Attendance = max(a.Attendance, b.Attendance)
	}
	return met
}

// Under returns the limits of a call to a server whose owner's limits are given,
// and who holds the permission down: the owner where nobody holds it lower.
func (c Combined) Under(owner engagement.Limits) (engagement.Limits, Origin) {
	from := c.PermissionFrom
	if owner.Permission < engagement.Destructive && owner.Permission <= c.Engagement.Limits.Permission {
		from = OriginOwner
	}
	return c.Engagement.Limits.Meet(owner), from
}

// Fill sets the fields of a call that the session and the owner's limits settle:
// limits and who lowered them, mode, fallback, checkpoint, authority and stakes.
func (c Combined) Fill(call *Call, owner engagement.Limits) {
	call.Limits, call.PermissionFrom = c.Under(owner)
	posture := c.Engagement.Posture
	call.HIL, call.GateFallback, call.CheckpointBefore = posture.HIL, posture.GateFallback, posture.CheckpointBeforeEffect
	call.Autonomy, call.Attendance, call.Stakes = c.Authority.Autonomy, c.Authority.Attendance, c.Stakes
}
