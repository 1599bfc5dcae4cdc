package canonjson

// maxPlain bounds how deep isCanonical looks.
const maxPlain = 16

// isCanonical reports whether a value is known to be in its form already. It knows
// values of plain ASCII whose members stand in order, which is what most arguments
// of calls are; of any other value it says no.
func isCanonical(src []byte) bool {
	end := canonicalEnd(src, 0, 0)
	return end > 0 && end == len(src)
}

// canonicalEnd returns where the canonical value ends that begins at i, 0 where
// there is none that is known to be.
func canonicalEnd(b []byte, i, depth int) int {
	if i >= len(b) || depth > maxPlain {
		return 0
	}
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{':
		return objectEnd(b, i, depth)
	case '[':
		return arrayEnd(b, i, depth)
	case 't':
		return wordEnd(b, i, "true")
	case 'f':
		return wordEnd(b, i, "false")
	case 'n':
		return wordEnd(b, i, "null")
	}
	return numberEnd(b, i)
}

func objectEnd(b []byte, i, depth int) int {
	if i++; i < len(b) && b[i] == '}' {
		return i + 1
	}
	for before := []byte(nil); ; {
		if i >= len(b) || b[i] != '"' {
			return 0
		}
		end := stringEnd(b, i)
		if end == 0 || end >= len(b) || b[end] != ':' {
			return 0
		}
		name := b[i+1 : end-1]
		if before != nil && string(name) <= string(before) { // ASCII: in the order of UTF-16 as well
			return 0
		}
		before = name
		if i = canonicalEnd(b, end+1, depth+1); i == 0 || i >= len(b) {
			return 0
		}
		switch b[i] {
		case '}':
			return i + 1
		case ',':
			i++
		default:
			return 0
		}
	}
}

func arrayEnd(b []byte, i, depth int) int {
	if i++; i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = canonicalEnd(b, i, depth+1); i == 0 || i >= len(b) {
			return 0
		}
		switch b[i] {
		case ']':
			return i + 1
		case ',':
			i++
		default:
			return 0
		}
	}
}

func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ' || c >= 0x7f || c == '\\':
			return 0
		}
	}
	return 0
}

func wordEnd(b []byte, i int, word string) int {
	if end := i + len(word); end <= len(b) && string(b[i:end]) == word {
		return end
	}
	return 0
}

// numberEnd knows integers alone.
func numberEnd(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	start := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == start || i > start+1 && b[start] == '0' || i < len(b) && (b[i] == '.' || b[i]|0x20 == 'e') {
		return 0
	}
	return i
}
