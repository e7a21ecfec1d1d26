package digest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
)

// keyOf returns the key by which a draft gathers: its own, or the value of a field of its data or of its template's variables. Drafts without
// the field share the empty key.
func keyOf(d *notification.Draft, c *notification.Content, by string) string {
	switch {
	case d.DigestKey != "":
		return stored(d.DigestKey)
	case by == "":
		return ""
	}
	if notification.IsJSON(c.ContentType) {
		if key, ok := valueAt(c.Data, by); ok {
			return stored(key)
		}
	}
	return stored(d.Variables[by])
}

// valueAt returns the text of the value at a path into an object. A member whose name has dots goes before the path into others.
func valueAt(data []byte, path string) (string, bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil {
		return "", false
	}
	if value, ok := object[path]; ok {
		return textOf(value)
	}
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		if inner, ok := object[path[:i]]; ok {
			return valueAt(inner, path[i+1:])
		}
	}
	return "", false
}

// textOf returns a string as it is, and any other value but null as its JSON.
func textOf(value json.RawMessage) (string, bool) {
	var text string
	switch {
	case string(value) == "null":
		return "", false
	case value[0] == '"':
		return text, json.Unmarshal(value, &text) == nil
	}
	var short bytes.Buffer
	if json.Compact(&short, value) != nil {
		return "", false
	}
	return short.String(), true
}

// stored returns a text as the store keeps it: what is too long for an index, or has bytes that a database refuses, becomes a hash.
func stored(text string) string {
	if len(text) <= notification.MaxNameBytes && notification.CheckText("", text) == nil {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// line returns an item as one line of a digest's text.
func line(title, body string) string {
	text := title
	switch {
	case text == "":
		text = body
	case body != "":
		text += ": " + body
	}
	return clip(strings.Join(strings.Fields(text), " "), maxLine)
}

// clip shortens a text to at most so many bytes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}
