package godwit

import (
	"bytes"
	"encoding/json"
)

// split splits {"name":{…}} into members without parsing their values, so neither their depth nor their content matters. For a truncated
// frame, it returns the complete members and false.
func split(b []byte) (name string, members map[string][]byte, whole bool) {
	s := &splitter{rest: b}
	if !s.take('{') {
		return "", nil, false
	}
	name, ok := s.name()
	if !ok || !s.take('{') {
		return "", nil, false
	}
	members = make(map[string][]byte)
	for !s.take('}') {
		key, ok := s.name()
		if !ok {
			return name, members, false
		}
		value, ok := s.value()
		if !ok {
			return name, members, false
		}
		members[key] = value
		if !s.take(',') && !s.next('}') {
			return name, members, false
		}
	}
	return name, members, s.take('}') && len(s.space()) == 0
}

type splitter struct{ rest []byte }

func (s *splitter) space() []byte {
	s.rest = bytes.TrimLeft(s.rest, " \t\r\n")
	return s.rest
}

func (s *splitter) next(c byte) bool { return len(s.space()) > 0 && s.rest[0] == c }

func (s *splitter) take(c byte) bool {
	if !s.next(c) {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// name consumes a member's name and its colon.
func (s *splitter) name() (name string, ok bool) {
	n := stringEnd(s.space())
	if n == 0 || json.Unmarshal(s.rest[:n], &name) != nil {
		return "", false
	}
	s.rest = s.rest[n:]
	return name, s.take(':')
}

// value consumes any value up to its end.
func (s *splitter) value() (value []byte, ok bool) {
	b := s.space()
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := stringEnd(b[i:])
			if n == 0 {
				return nil, false
			}
			i += n - 1
		case '{', '[':
			depth++
		case '}', ']', ',':
			if depth == 0 {
				s.rest = b[i:]
				return bytes.TrimRight(b[:i], " \t\r\n"), i > 0
			}
			if b[i] != ',' {
				depth--
			}
		}
	}
	return nil, false
}

// stringEnd returns the length of the string at the beginning of b; 0: there is none, or it does not end.
func stringEnd(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}
