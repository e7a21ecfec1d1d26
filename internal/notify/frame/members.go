package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

type member struct {
	name  string
	value json.RawMessage
}

// members parses a JSON object. It refuses text after the object and repeated keys. Values are borrowed from b or copied.
func members(b []byte) ([]member, error) {
	if ms, ok := plainMembers(b); ok {
		return ms, nil
	}
	return anyMembers(b)
}

// plainMembers does the same as members for objects whose keys are plain names, which is the form of all correct clients. It allocates no
// garbage, which matters when all clients reconnect at once.
func plainMembers(b []byte) ([]member, bool) {
	p := scanner(b)
	if !json.Valid(b) || !p.take('{') {
		return nil, false
	}
	ms := make([]member, 0, 4) // most have no more
	for more := !p.take('}'); more; more = !p.take('}') {
		if len(ms) > 0 {
			p.take(',')
		}
		name, ok := p.name()
		if !ok || len(ms) == maxMembers || slices.ContainsFunc(ms, func(m member) bool { return m.name == string(name) }) {
			return nil, false
		}
		p.take(':')
		ms = append(ms, member{name: string(name), value: json.RawMessage(p.value())})
	}
	return ms, true
}

// value takes one value from a text that is known to be valid.
func (p *scanner) value() []byte {
	p.space()
	b := *p
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case quoted && c == '\\':
			i++ // whatever is escaped
			continue
		case c == '"':
			quoted = !quoted
		case quoted:
			continue
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
		case depth == 0 && strings.IndexByte(",}] \t\n\r", c) >= 0:
			*p = b[i:]
			return b[:i:i]
		default:
			continue
		}
		if depth == 0 && !quoted {
			*p = b[i+1:]
			return b[: i+1 : i+1]
		}
	}
	*p = nil
	return b
}

// anyMembers does the same as members for any spelling, and describes the fault of invalid objects.
func anyMembers(b []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	switch t, err := dec.Token(); {
	case err != nil:
		return nil, syntaxError(err)
	case t != json.Delim('{'):
		return nil, errors.New("it does not start with {")
	}
	var ms []member
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, syntaxError(err)
		}
		m := member{name: t.(string)} // a key: the decoder accepts nothing else here
		for _, other := range ms {
			if other.name == m.name {
				return nil, fmt.Errorf("key %.64q comes twice", m.name)
			}
		}
		if err := dec.Decode(&m.value); err != nil {
			return nil, syntaxError(err)
		}
		if ms = append(ms, m); len(ms) > maxMembers {
			return nil, errors.New("it has too many keys")
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, syntaxError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows it")
	}
	return ms, nil
}

// maxMembers limits the comparison of keys; no frame has as many members.
const maxMembers = 32

func syntaxError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it is cut short")
	}
	return err
}
