package gate

// Answered is closed once a session was given its first list of tools.
func (g *Gate) Answered() <-chan struct{} { return g.answered }

// Recalled reports whether something is on record for every server, so that the
// first list needs none of them.
func (g *Gate) Recalled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for alias := range g.ruling().servers {
		if len(g.offered[alias].entries) == 0 {
			return false
		}
	}
	return true
}
