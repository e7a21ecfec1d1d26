package frame

// quickAck decodes the ack of a single notification and similar ones, {"ack":{"ids":["a","b"]}}, without allocating. It returns false for
// anything else, also for an ack in an unusual spelling or with an error: then the general decoder accepts it or describes the error.
func quickAck(b []byte, into *Client) bool {
	into.reset(KindAck)
	p := scanner(b)
	if !p.take('{') || !p.key("ack") || !p.take('{') || !p.key("ids") || !p.take('[') {
		return false
	}
	for {
		id, ok := p.name()
		if !ok || len(into.IDs) == MaxIDs {
			return false
		}
		into.IDs = append(into.IDs, id)
		if p.take(']') {
			break
		}
		if !p.take(',') {
			return false
		}
	}
	return p.take('}') && p.end()
}

// scanner is the unread rest of a JSON text.
type scanner []byte

func (p *scanner) space() {
	b := *p
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	*p = b
}

func (p *scanner) take(c byte) bool {
	p.space()
	if len(*p) == 0 || (*p)[0] != c {
		return false
	}
	*p = (*p)[1:]
	return true
}

// key reads a member's name and the colon.
func (p *scanner) key(name string) bool {
	got, ok := p.name()
	return ok && string(got) == name && p.take(':')
}

// name reads a string whose bytes are all allowed in names, so it has no escapes.
func (p *scanner) name() ([]byte, bool) {
	if !p.take('"') {
		return nil, false
	}
	b := *p
	for i, c := range b {
		if c == '"' {
			*p = b[i+1:]
			return b[:i:i], i > 0 && !dots(b[:i])
		}
		if !nameBytes[c] {
			break
		}
	}
	return nil, false
}

// end reads the last brace, after which the text must end.
func (p *scanner) end() bool {
	if !p.take('}') {
		return false
	}
	p.space()
	return len(*p) == 0
}
