package postgres

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Types whose values are not texts in JSON, by their object ids, which never change (PostgreSQL, pg_type.dat).
const (
	typeBool    = 16
	typeInt8    = 20
	typeInt2    = 21
	typeInt4    = 23
	typeOID     = 26
	typeJSON    = 114
	typeFloat4  = 700
	typeFloat8  = 701
	typeNumeric = 1700
	typeJSONB   = 3802
)

// elements are the types of arrays' elements, by the array's type.
var elements = map[uint32]uint32{
	199: typeJSON, 1000: typeBool, 1005: typeInt2, 1007: typeInt4, 1016: typeInt8, 1021: typeFloat4, 1022: typeFloat8, 1028: typeOID, 1231: typeNumeric, 3807: typeJSONB,
	1009: 25, 1015: 1043, 1014: 1042, 1002: 18, 2951: 2950, 1115: 1114, 1185: 1184, 1182: 1082, // texts: text, varchar, bpchar, char, uuid, timestamps, date
}

// appendJSON appends a value as PostgreSQL writes it in its text form. Numbers keep all their digits.
func appendJSON(out []byte, c *column, v value) []byte {
	if v.kind == isNull {
		return append(out, "null"...)
	}
	of, array := elements[c.kind]
	if c.element != 0 {
		of, array = c.element, true
	}
	if array {
		if list, ok := appendArray(out, of, v.text); ok {
			return list
		}
	}
	return appendScalar(out, c.kind, v.text)
}

func appendScalar(out []byte, kind uint32, text []byte) []byte {
	switch kind {
	case typeBool:
		if string(text) == "t" {
			return append(out, "true"...)
		}
		return append(out, "false"...)
	case typeInt2, typeInt4, typeInt8, typeOID, typeFloat4, typeFloat8, typeNumeric:
		if json.Valid(text) { // NaN and Infinity are not
			return append(out, text...)
		}
	case typeJSON, typeJSONB:
		if json.Valid(text) {
			var b bytes.Buffer
			_ = json.Compact(&b, text) // it is valid
			return append(out, b.Bytes()...)
		}
	}
	return appendString(out, text)
}

func appendString(out, text []byte) []byte {
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("�"))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(string(text)) // texts always encode
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// appendArray appends an array, such as {1,2,"a \"b\"",NULL} or {{1},{2}}. False: it is none of these forms.
func appendArray(out []byte, of uint32, text []byte) (_ []byte, ok bool) {
	if len(text) > 0 && text[0] == '[' { // bounds before the array
		at := bytes.IndexByte(text, '=')
		if at < 0 {
			return out, false
		}
		text = text[at+1:]
	}
	a := arrayReader{in: text, of: of}
	out = a.array(out, 0)
	return out, !a.bad && a.pos == len(text)
}

// mostDimensions is PostgreSQL's own limit.
const mostDimensions = 6

type arrayReader struct {
	in  []byte
	pos int
	of  uint32
	bad bool
}

func (a *arrayReader) array(out []byte, depth int) []byte {
	if depth >= mostDimensions || a.pos >= len(a.in) || a.in[a.pos] != '{' {
		a.bad = true
		return out
	}
	a.pos++
	out = append(out, '[')
	for first := true; !a.bad; first = false {
		if a.pos >= len(a.in) {
			a.bad = true
			return out
		}
		switch a.in[a.pos] {
		case '}':
			a.pos++
			return append(out, ']')
		case ',':
			if first {
				a.bad = true
				return out
			}
			a.pos++
		}
		if !first {
			out = append(out, ',')
		}
		if a.pos < len(a.in) && a.in[a.pos] == '{' {
			out = a.array(out, depth+1)
		} else {
			out = a.element(out)
		}
	}
	return out
}

func (a *arrayReader) element(out []byte) []byte {
	var text []byte
	quoted := a.pos < len(a.in) && a.in[a.pos] == '"'
	if quoted {
		a.pos++
	}
	for ; ; a.pos++ {
		if a.pos >= len(a.in) {
			a.bad = true
			return out
		}
		switch c := a.in[a.pos]; {
		case c == '\\' && a.pos+1 < len(a.in):
			a.pos++
			text = append(text, a.in[a.pos])
			continue
		case quoted && c == '"':
			a.pos++
			return appendScalar(out, a.of, text)
		case !quoted && (c == ',' || c == '}'):
			if len(text) == 0 {
				a.bad = true
			}
			if bytes.EqualFold(text, []byte("NULL")) {
				return append(out, "null"...)
			}
			return appendScalar(out, a.of, text)
		default:
			text = append(text, c)
		}
	}
}
