package backend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// MaxEntries is the maximum length of a list in an entry of a source.
const MaxEntries = 1_000

// ReadEntries reads an entry of a source: a publish, {"put":…}, {"delete":…}, {"topic":…,"data":…}, or a list of these. A list with a member
// that is invalid is refused as a whole, so that it can be given again once it is mended.
func ReadEntries(body []byte) ([]source.Entry, error) {
	body = bytes.TrimLeft(body, " \t\r\n")
	if len(body) == 0 || body[0] != '[' {
		one, err := readEntry(body)
		return []source.Entry{one}, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, problem.BadJSON.With(err.Error())
	}
	if len(list) > MaxEntries {
		return nil, notification.BadField("", "the list has %d members; at most %d are allowed", len(list), MaxEntries)
	}
	entries := make([]source.Entry, len(list))
	for i, raw := range list {
		var err error
		if entries[i], err = readEntry(raw); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return entries, nil
}

// readEntry reads one member. Most are publishes, which are read without a second look.
func readEntry(body []byte) (e source.Entry, err error) {
	if !bytes.Contains(body, []byte(`"put"`)) && !bytes.Contains(body, []byte(`"delete"`)) && !bytes.Contains(body, []byte(`"topic"`)) {
		e.Publish, err = ReadDraft(body)
		return e, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || !utf8.Valid(body) {
		return e, problem.BadJSON.New()
	}
	if err := checkOneChange(members); err != nil {
		return e, err
	}
	switch {
	case members["put"] != nil:
		var put source.Put
		err = call.Fields{"put": call.Reader(func(_ string, raw json.RawMessage) (err error) {
			put.Key, put.Put, err = readPutOf(raw)
			return err
		})}.Decode(body)
		e.Put = &put
	case members["delete"] != nil:
		var k object.Key
		err = call.Fields{"delete": call.Reader(func(_ string, raw json.RawMessage) error {
			return call.Fields{"group": &k.Group, "object": &k.Object}.Decode(raw)
		})}.Decode(body)
		if err == nil {
			err = k.Check()
		}
		e.Delete = &k
	case members["topic"] != nil:
		e.Message, err = readMessage(body)
	default:
		e.Publish, err = ReadDraft(body)
	}
	return e, err
}

// changes are the members that say what an entry does. Each entry has exactly one.
var changes = [...]string{"put", "delete", "topic", "to"}

// checkOneChange refuses an entry that does several things at once.
func checkOneChange(members map[string]json.RawMessage) error {
	first := ""
	for _, name := range changes {
		switch {
		case members[name] == nil:
		case first == "":
			first = name
		default:
			return notification.BadField(name, "cannot stand beside %s: several changes in one message are a list, like [{%q:…},{%q:…}]", first, first, name)
		}
	}
	return nil
}

// readPutOf reads a put with the names of its object.
func readPutOf(body []byte) (k object.Key, _ object.Put, err error) {
	p, err := decodePutOf(body, call.Fields{"group": &k.Group, "object": &k.Object})
	if err != nil {
		return k, object.Put{}, err
	}
	return k, *p, k.Check()
}

// readMessage reads {"topic","data" or "data_base64","content_type"}.
func readMessage(body []byte) (*pubsub.Message, error) {
	m := new(pubsub.Message)
	var data content
	err := call.Fields{
		"topic": &m.Topic, "content_type": &m.ContentType,
		"data": call.Reader(func(_ string, raw json.RawMessage) error {
			data.given, data.raw = true, raw
			return nil
		}),
		"data_base64": call.Text(func(_, encoded string) error {
			data.base64, data.encoded = true, encoded
			return nil
		}),
	}.Decode(body)
	if err != nil {
		return nil, err
	}
	if m.Data, m.ContentType, err = data.settle("data", m.ContentType); err != nil {
		return nil, err
	}
	return m, m.Check()
}
