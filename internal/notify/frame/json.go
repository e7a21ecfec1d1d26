package frame

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// DecodeJSON decodes one JSON frame: an object with one key, the frame's name. Errors about unknown frames and fields contain their names.
// A returned error is an *Error.
func DecodeJSON(b []byte, into *Client) error {
	if quickAck(b, into) {
		return into.check()
	}
	return decodeJSON(b, into)
}

// decodeJSON decodes any frame in any valid spelling.
func decodeJSON(b []byte, into *Client) error {
	into.reset(0)
	if !utf8.Valid(b) {
		return frameError("a frame must be UTF-8")
	}
	frames, err := members(b)
	if err != nil {
		return frameError("a frame must be one JSON object: %v", err)
	}
	if len(frames) != 1 {
		return frameError("a frame must have exactly one key, its name; this one has %d", len(frames))
	}
	name := frames[0].name
	kind := Kind(max(slices.Index(kinds[:], name), 0)) // there are a dozen
	if kind == 0 {
		return frameError("unknown frame %.64q", name)
	}
	into.reset(kind)
	fields, err := members(frames[0].value)
	if err != nil {
		return frameError("%s must be a JSON object: %v", name, err)
	}
	if err := into.readFields(fields); err != nil {
		return into.toRequest(err, func() []byte { return requestID(fields) })
	}
	return nil
}

// readFields reads the fields of a frame of c's kind and applies the rules of that kind.
func (c *Client) readFields(fields []member) error {
	for _, f := range fields {
		read, ok := readers[c.Kind][f.name]
		if !ok {
			return &Error{Code: CodeBadFrame, Message: fmt.Sprintf("%s has no field %.64q", c.Kind, f.name), Field: clip(f.name)}
		}
		if string(f.value) == "null" { // some encoders write an absent field this way
			continue
		}
		if problem := read(f.value, c); problem != "" {
			return badField(c.Kind, f.name, problem)
		}
	}
	return c.check()
}

// clip shortens a client's name, so that it does not fill an answer.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
