// Package textfile reads text files of people and other programs: it detects the encoding, unless it is named, and removes byte-order marks
// and other additions of editors.
package textfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	utf "golang.org/x/text/encoding/unicode"
)

// headBytes is the size of the part of a file that is examined to detect its encoding.
const headBytes = 64 << 10

// Text is a file's text converted to UTF-8.
type Text struct {
	*bufio.Reader
	Encoding string // the file's encoding, for people
	Decoded  bool   // U+FFFD has replaced undecodable bytes
}

// AskError means that a file's encoding cannot be detected: the user has to name it.
type AskError struct{}

func (*AskError) Error() string {
	return "it is not UTF-8, and which encoding it has cannot be known: name it, as windows-1252, iso-8859-1, windows-1251 or utf-16le"
}

var marks = []struct {
	mark, name string
	decoded    encoding.Encoding // nil: UTF-8 follows the mark
}{
	{"\xef\xbb\xbf", "UTF-8 with a byte-order mark", nil},
	{"\xff\xfe", "UTF-16, little-endian", utf.UTF16(utf.LittleEndian, utf.IgnoreBOM)},
	{"\xfe\xff", "UTF-16, big-endian", utf.UTF16(utf.BigEndian, utf.IgnoreBOM)},
}

// Open detects the encoding of a text unless named is set. In a UTF-8 text, single bytes may be invalid: the reader of its lines decides
// about these.
func Open(r io.Reader, named string) (*Text, error) {
	in := bufio.NewReaderSize(r, headBytes)
	head, err := in.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")) || bytes.HasPrefix(head, []byte("\x00\x00\xfe\xff")) {
		return nil, errors.New("it is UTF-32: save it as UTF-8")
	}
	if named != "" {
		return openNamed(in, head, named)
	}
	for _, m := range marks {
		if bytes.HasPrefix(head, []byte(m.mark)) {
			_, _ = in.Discard(len(m.mark)) // it is buffered
			return text(in, m.name, m.decoded), nil
		}
	}
	if odd, even := zeros(head); odd+even > 0 {
		switch {
		case even == 0:
			return text(in, marks[1].name, marks[1].decoded), nil
		case odd == 0:
			return text(in, marks[2].name, marks[2].decoded), nil
		}
		return nil, errors.New("it is not text: it has zero bytes")
	}
	if whole, broken := sequences(head); broken > 0 && whole == 0 {
		return nil, &AskError{}
	}
	return text(in, "UTF-8", nil), nil
}

func text(in *bufio.Reader, name string, e encoding.Encoding) *Text {
	if e == nil {
		return &Text{Reader: in, Encoding: name}
	}
	return &Text{Reader: bufio.NewReader(e.NewDecoder().Reader(in)), Encoding: name, Decoded: true}
}

// zeros counts zero bytes at odd and at even positions: in UTF-16, separators and digits contain one.
func zeros(b []byte) (odd, even int) {
	for i, c := range b {
		switch {
		case c != 0:
		case i%2 == 1:
			odd++
		default:
			even++
		}
	}
	return odd, even
}

// sequences counts characters beyond ASCII, and invalid bytes.
func sequences(b []byte) (whole, broken int) {
	for len(b) > 0 {
		c, n := utf8.DecodeRune(b)
		switch {
		case c == utf8.RuneError && n == 1:
			if len(b) < utf8.UTFMax && !utf8.FullRune(b) {
				return whole, broken // the head ends within it
			}
			broken++
		case n > 1:
			whole++
		}
		b = b[n:]
	}
	return whole, broken
}

// otherNames maps additional common names of encodings.
var otherNames = map[string]string{"ansi": "windows1252", "latin1": "iso88591", "latin2": "iso88592", "latin9": "iso885915", "mac": "macintosh"}

func plain(name string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return -1
		}
		return unicode.ToLower(c)
	}, name)
}

func openNamed(in *bufio.Reader, head []byte, named string) (*Text, error) {
	name := plain(named)
	if other, ok := otherNames[name]; ok {
		name = other
	}
	if number, ok := strings.CutPrefix(name, "cp125"); ok {
		name = "windows125" + number
	} else if number, ok := strings.CutPrefix(name, "cp"); ok {
		name = "ibmcodepage" + number
	}
	skip := func(marked ...int) {
		for _, i := range marked {
			if bytes.HasPrefix(head, []byte(marks[i].mark)) {
				_, _ = in.Discard(len(marks[i].mark)) // it is buffered
			}
		}
	}
	switch name {
	case "utf8":
		skip(0)
		return text(in, "UTF-8", nil), nil
	case "utf16le":
		skip(1)
		return text(in, marks[1].name, marks[1].decoded), nil
	case "utf16be":
		skip(2)
		return text(in, marks[2].name, marks[2].decoded), nil
	case "utf16":
		return text(in, "UTF-16", utf.UTF16(utf.LittleEndian, utf.UseBOM)), nil
	}
	for _, e := range charmap.All {
		if is := fmt.Sprint(e); plain(is) == name {
			return text(in, is, e), nil
		}
	}
	return nil, fmt.Errorf("%.40q is no encoding that is known here: name it like utf-8, utf-16le, windows-1252, iso-8859-1 or koi8-r", named)
}

// Plain converts a small file, a key or a setting, to plain text: UTF-8 without a byte-order mark, with \n for line ends, and without space
// around it. If the encoding is unknown, it returns the bytes unchanged.
func Plain(b []byte) string {
	if t, err := Open(bytes.NewReader(b), ""); err == nil {
		if decoded, err := io.ReadAll(t); err == nil && utf8.Valid(decoded) && (!t.Decoded || !bytes.Contains(decoded, []byte("\ufffd"))) {
			b = decoded
		}
	}
	s := strings.ReplaceAll(string(b), "\r\n", "\n")
	return strings.TrimSpace(strings.ReplaceAll(s, "\r", "\n"))
}
