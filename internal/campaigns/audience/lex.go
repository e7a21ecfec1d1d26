package audience

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
)

// SyntaxError is an error in an expression, with its position.
type SyntaxError struct {
	Pos     int // the character, from 1
	Problem string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at character %d", e.Problem, e.Pos) }

type tokenKind uint8

const (
	endToken tokenKind = iota
	nameToken
	textToken
	numberToken
	signToken // an operator, a bracket or a comma
)

// token is one token of an expression.
type token struct {
	kind tokenKind
	text string // of a text: its content
	num  float64
	pos  int // byte in the input
}

// show formats the token for an error message.
func (t token) show() string {
	switch t.kind {
	case endToken:
		return "the end"
	case textToken:
		return quoted(notification.Clip(t.text))
	}
	return notification.Clip(t.text)
}

// word reports whether the token is this keyword, in any case.
func (t token) word(w string) bool { return t.kind == nameToken && strings.EqualFold(t.text, w) }

func (t token) sign(s string) bool { return t.kind == signToken && t.text == s }

type lexer struct {
	in  string
	pos int
}

func (l *lexer) errorf(pos int, format string, args ...any) error {
	return &SyntaxError{Pos: utf8.RuneCountInString(l.in[:min(pos, len(l.in))]) + 1, Problem: fmt.Sprintf(format, args...)}
}

func (l *lexer) next() (token, error) {
	for l.pos < len(l.in) && strings.IndexByte(" \t\r\n", l.in[l.pos]) >= 0 {
		l.pos++
	}
	start := l.pos
	if start == len(l.in) {
		return token{pos: start}, nil
	}
	switch c := l.in[start]; {
	case c == '"' || c == '\'':
		return l.quoted(c)
	case nameByte(c, true):
		for l.pos < len(l.in) && nameByte(l.in[l.pos], false) {
			l.pos++
		}
		return token{kind: nameToken, text: l.in[start:l.pos], pos: start}, nil
	case c >= '0' && c <= '9' || c == '-' || c == '.':
		return l.number()
	}
	for _, s := range []string{"!=", "<>", "<=", ">=", "==", "=", "<", ">", "(", ")", ","} {
		if strings.HasPrefix(l.in[start:], s) {
			l.pos += len(s)
			return token{kind: signToken, text: s, pos: start}, nil
		}
	}
	r, _ := utf8.DecodeRuneInString(l.in[start:])
	return token{}, l.errorf(start, "found %q, which means nothing here", r)
}

// quoted reads a text in double or single quotes.
func (l *lexer) quoted(quote byte) (token, error) {
	start := l.pos
	var b strings.Builder
	for l.pos++; l.pos < len(l.in); l.pos++ {
		switch c := l.in[l.pos]; c {
		case quote:
			l.pos++
			return token{kind: textToken, text: b.String(), pos: start}, nil
		case '\\':
			l.pos++
			if l.pos == len(l.in) {
				return token{}, l.errorf(start, "the text has no closing quote")
			}
			i := strings.IndexByte(`\"'ntr`, l.in[l.pos])
			if i < 0 {
				return token{}, l.errorf(l.pos-1, `\%c is no escape: write \\, \", \', \n, \t or \r`, l.in[l.pos])
			}
			b.WriteByte("\\\"'\n\t\r"[i])
		case 0:
			return token{}, l.errorf(l.pos, "found a NUL character")
		default:
			b.WriteByte(c)
		}
	}
	return token{}, l.errorf(start, "the text has no closing quote")
}

func (l *lexer) number() (token, error) {
	start := l.pos
	for l.pos < len(l.in) && (strings.IndexByte("+-.eE", l.in[l.pos]) >= 0 || l.in[l.pos] >= '0' && l.in[l.pos] <= '9') {
		l.pos++
	}
	text := l.in[start:l.pos]
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return token{}, l.errorf(start, "%s is not a number", notification.Clip(text))
	}
	return token{kind: numberToken, text: text, num: n, pos: start}, nil
}
