package config

// notYet names what the schema already has and this version does not do. A value
// there is checked like any other and then refused, so that nobody relies on a
// switch that is not connected. The note ends the error.
//
// A name is a path in which "*" stands for the owner's own keys and for places
// in a list, and "servers" for both sections. With "=word" only that word is
// refused; without it any value that is not empty, false, zero or null is.
//
// To connect a feature, delete its line and run go test ./config -update, which
// takes it off the list in docs/configuration.md. Nothing else has to change here.
var notYet = map[string]string{}

// refuseNotYet records a fault where the value at the present path asks for
// something that is not there.
func (d *decoder) refuseNotYet(n *node) {
	pattern := d.pattern()
	note, found := notYet[pattern]
	if !found && n.kind == textNode {
		note, found = notYet[pattern+"="+n.text]
	}
	if !found || inert(n) {
		return
	}
	d.here(n.pos, "not available in this version: %s", note)
}

// inert reports whether a value asks for nothing.
func inert(n *node) bool {
	switch n.kind {
	case boolNode:
		return n.text == "false"
	case numberNode:
		return n.text == "0"
	case textNode:
		return n.text == ""
	}
	for _, m := range n.members {
		if !inert(m.value) {
			return false
		}
	}
	for _, item := range n.items {
		if !inert(item) {
			return false
		}
	}
	return true
}
