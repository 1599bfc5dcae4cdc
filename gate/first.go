package gate

// Wanted is closed once the servers should run: a session was given its first
// list of tools, or needs a server before that.
func (g *Gate) Wanted() <-chan struct{} { return g.wanted }

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
