package gate

// Answered is closed once a session was given its first list of tools.
func (g *Gate) Answered() <-chan struct{} { return g.answered }

// Recalled reports whether every server was seen before, so that the first list
// needs none of them.
func (g *Gate) Recalled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for alias := range g.ruling().servers {
		if _, known := g.offered[alias]; !known {
			return false
		}
	}
	return true
}
