package tables

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"godwit.dev/godwit/internal/campaigns/audience"
)

// Limits of a line and a record. They equal the server's limit for one registration.
const (
	MaxLine   = 64 << 10 // bytes of a line
	maxRecord = 64 << 10 // bytes of a record that has line breaks in its cells
	// maxLines limits the lines of one cell: beyond it, the cell's quote counts as unclosed.
	maxLines = 200
)

// line is one line of a file, with its line break.
type line struct {
	number int
	text   []byte
	err    error // why the line cannot be read; text is then empty
}

// lines reads lines of limited length. Lines can be put back.
type lines struct {
	in      *bufio.Reader
	ends    byte // how lines end: \n, with an optional \r after it, or \r alone
	decoded bool // U+FFFD has replaced bytes that could not be decoded
	number  int
	back    []line // lines put back, to be read again
}

// newLines determines the line ends of a file: \r alone if the first lines have no other.
func newLines(in *bufio.Reader, decoded bool) *lines {
	head, _ := in.Peek(MaxLine) // the reader reports errors of the file later
	ends := byte('\n')
	if bytes.IndexByte(head, '\n') < 0 && bytes.IndexByte(head, '\r') >= 0 {
		ends = '\r'
	}
	return &lines{in: in, ends: ends, decoded: decoded}
}

// next reads a line; io.EOF after the last.
func (l *lines) next() (line, error) {
	if n := len(l.back); n > 0 {
		first := l.back[0]
		l.back = l.back[1:]
		return first, nil
	}
	l.number++
	var text []byte
	for {
		part, err := l.in.ReadSlice(l.ends)
		long := len(text)+len(part) > MaxLine
		if !long {
			text = append(text, part...)
		}
		switch {
		case long:
			return line{number: l.number, err: fmt.Errorf("has more than %d bytes", MaxLine)}, l.skip(err)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(text) > 0:
			err = nil
		}
		if err != nil {
			return line{}, err
		}
		return line{number: l.number, text: text, err: l.check(text)}, nil
	}
}

// skip discards the rest of a line.
func (l *lines) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.in.ReadSlice(l.ends)
	}
	if errors.Is(err, io.EOF) {
		return nil // the line was the last: the next call returns io.EOF
	}
	return err
}

// giveBack has lines read again.
func (l *lines) giveBack(list []line) { l.back = append(list[:len(list):len(list)], l.back...) }

func (l *lines) check(text []byte) error {
	switch {
	case bytes.IndexByte(text, 0) >= 0:
		return errors.New("has a zero byte, which is no text")
	case !validUTF8(text):
		return errors.New("is not UTF-8: name the file's encoding, like windows-1252")
	case l.decoded && bytes.Contains(text, []byte("\ufffd")):
		return errors.New("has characters that are none in the file's encoding")
	}
	return nil
}

func lineError(number int, err error) error { return &audience.LineError{Line: number, Err: err} }
