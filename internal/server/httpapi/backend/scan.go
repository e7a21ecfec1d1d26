package backend

import (
	"encoding/json"
	"fmt"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/problem"
)

// scanner reads JSON that must have a known shape. It exists because a publish is the hot path: one pass over the
// bytes, no reflection, and errors that name the field, the value found there and the one wanted.
//
// Values whose shape does not matter are skipped by their brackets and quotes only; the code that keeps them validates
// them.
type scanner struct {
	in  []byte
	pos int
}

// syntax is the problem of a body that is not JSON.
func (s *scanner) syntax(want string) error {
	at := "the end"
	if s.pos < len(s.in) {
		at = fmt.Sprintf("%q at byte %d", s.in[s.pos], s.pos+1)
	}
	return problem.BadJSON.With("found " + at + " where " + want + " is needed")
}

func (s *scanner) space() {
	for s.pos < len(s.in) {
		switch s.in[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte that is not space, or 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos == len(s.in) {
		return 0
	}
	return s.in[s.pos]
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.pos++
	return true
}

// end demands that nothing follows.
func (s *scanner) end() error {
	if s.peek() != 0 || s.pos < len(s.in) {
		return s.syntax("the end of the document")
	}
	return nil
}

// next moves to the next member of an object or list that closes with last: false at its end. first is true for
// the first call.
func (s *scanner) next(first bool, last byte) (bool, error) {
	if s.take(last) {
		return false, nil
	}
	if first {
		return true, nil
	}
	if !s.take(',') {
		return false, s.syntax(fmt.Sprintf("a comma or %q", last))
	}
	if s.peek() == last {
		return false, s.syntax("another member")
	}
	return true, nil
}

// key reads a member's name and the colon. The bytes are borrowed from the input unless it has escapes.
func (s *scanner) key() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.syntax("a field's name in quotes")
	}
	raw, escaped, err := s.quoted()
	if err != nil {
		return nil, err
	}
	if escaped {
		raw = []byte(s.unescape(raw))
	}
	if !s.take(':') {
		return nil, s.syntax("a colon")
	}
	return raw, nil
}

// str reads a string value for a field.
func (s *scanner) str(field string) (string, error) {
	if s.peek() != '"' {
		return "", s.wrongType(field, "a string")
	}
	raw, escaped, err := s.quoted()
	if err != nil {
		return "", err
	}
	if escaped {
		return s.unescape(raw), nil
	}
	return string(raw), nil
}

// quoted reads a string and returns the text between its quotes.
func (s *scanner) quoted() (raw []byte, escaped bool, err error) {
	s.pos++
	start := s.pos
	for s.pos < len(s.in) {
		switch c := s.in[s.pos]; {
		case c == '"':
			raw = s.in[start:s.pos]
			s.pos++
			if escaped && !json.Valid(s.in[start-1:s.pos]) {
				s.pos = start
				return nil, false, s.syntax("a string with valid escapes")
			}
			return raw, escaped, nil
		case c == '\\':
			escaped = true
			s.pos++
			if s.pos == len(s.in) {
				return nil, false, s.syntax("an escape")
			}
		case c < ' ':
			return nil, false, s.syntax("a string without raw control characters")
		}
		s.pos++
	}
	return nil, false, s.syntax("a closing quote")
}

// unescape decodes a string that quoted has checked.
func (s *scanner) unescape(raw []byte) string {
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	var text string
	_ = json.Unmarshal(quoted, &text) // valid by quoted
	return text
}

// skip skips any value and returns its bytes, borrowed. In an object or list it checks only brackets and strings.
func (s *scanner) skip() (raw []byte, err error) {
	c := s.peek()
	start := s.pos
	switch c {
	case '"':
		err = s.pass()
	case '{', '[':
		err = s.passNested()
	case 0, '}', ']', ',', ':':
		err = s.syntax("a value")
	default:
		s.word()
	}
	return s.in[start:s.pos], err
}

// passNested skips to the bracket that closes the one at the position.
func (s *scanner) passNested() error {
	depth := 0
	for s.pos < len(s.in) {
		switch kinds[s.in[s.pos]] {
		case quote:
			if err := s.pass(); err != nil {
				return err
			}
			continue
		case opening:
			depth++
		case closing:
			if depth--; depth == 0 {
				s.pos++
				return nil
			}
		}
		s.pos++
	}
	return s.syntax("a closing bracket")
}

// pass skips a string without checking its escapes.
func (s *scanner) pass() error {
	for i := s.pos + 1; i < len(s.in); i++ {
		switch kinds[s.in[i]] {
		case quote:
			s.pos = i + 1
			return nil
		case escape:
			i++
		case control:
			s.pos = i
			return s.syntax("a string without raw control characters")
		}
	}
	s.pos = len(s.in)
	return s.syntax("a closing quote")
}

// kinds classifies bytes for skip.
var kinds = func() (t [256]uint8) {
	for c := range ' ' {
		t[c] = control
	}
	t['"'], t['\\'], t['{'], t['['], t['}'], t[']'] = quote, escape, opening, opening, closing, closing
	return t
}()

const (
	quote uint8 = iota + 1
	escape
	opening
	closing
	control
)

// word skips a number or literal.
func (s *scanner) word() {
	for s.pos < len(s.in) {
		switch s.in[s.pos] {
		case ' ', '\t', '\n', '\r', ',', ':', '"', '{', '}', '[', ']':
			return
		}
		s.pos++
	}
}

// null skips a null, if there is one: a field that is null counts as missing.
func (s *scanner) null() bool {
	s.space()
	if len(s.in)-s.pos >= 4 && string(s.in[s.pos:s.pos+4]) == "null" {
		s.pos += 4
		return true
	}
	return false
}

// wrongType returns the error for a value of another type than its field's.
func (s *scanner) wrongType(field, want string) error {
	found := "a number"
	switch c := s.peek(); c {
	case 0:
		return s.syntax("a value")
	case '"':
		found = "a string"
	case '{':
		found = "an object"
	case '[':
		found = "a list"
	default:
		start := s.pos
		s.word()
		switch word := string(s.in[start:s.pos]); {
		case word == "true" || word == "false":
			found = "a boolean"
		case word == "null":
			found = word
		case c != '-' && (c < '0' || c > '9'):
			s.pos = start
			return s.syntax("a value")
		}
	}
	return notification.BadField(field, "must be %s, not %s", want, found)
}
