package call

import (
	"bytes"
	"encoding/json"

	"godwit.dev/godwit/internal/notify/notification"
)

// Members passes the members of an object with arbitrary names to take, in their order. It refuses a repeated member.
func Members(field string, raw json.RawMessage, take func(name string, raw json.RawMessage) error) error {
	if raw[0] != '{' {
		return WrongType(field, "an object", raw)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return badJSON(raw)
	}
	seen := make(map[string]bool)
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil { // the body was checked
			return badJSON(raw)
		}
		if seen[name] {
			return notification.BadField(field+"."+notification.Clip(name), "is given twice")
		}
		seen[name] = true
		if err := take(name, value); err != nil {
			return err
		}
	}
	return nil
}
