// Package audience defines endpoints, with their tags and attributes, and the expressions that select endpoints.
package audience

import (
	"errors"
	"fmt"
	"strconv"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// ErrNotFound reports that the app has no such endpoint.
var ErrNotFound = errors.New("no such endpoint")

// MaxRecipients limits the recipients that an audience lists by name. For larger audiences, give the recipients' endpoints a tag.
const MaxRecipients = 10_000

// MaxEndpoints limits the endpoints that an audience lists by id.
const MaxEndpoints = 1000

// maxAudienceTags limits each of an audience's lists of tags.
const maxAudienceTags = 100

// Audience selects the endpoints, in the API's form, for which all given conditions hold; empty conditions are ignored. The empty audience
// is everybody in the app.
type Audience struct {
	Channels   []push.Channel `json:"channels,omitempty"`
	Recipients []string       `json:"recipients,omitempty"`
	Endpoints  []string       `json:"endpoints,omitempty"` // their ids
	TagsAny    []string       `json:"tags_any,omitempty"`
	TagsAll    []string       `json:"tags_all,omitempty"`
	Where      string         `json:"where,omitempty"` // see Parse
	// Segment names a stored segment, which the endpoints must be in. Within replaces it by the segment's expression.
	Segment string `json:"segment,omitempty"`
}

// Selection is a validated audience with its parsed expression.
type Selection struct {
	Channels   []push.Channel
	Recipients []string
	Endpoints  []ID
	TagsAny    []string
	TagsAll    []string
	Where      Expr // nil: everybody
}

// Select validates an audience. Errors name the invalid field as a part of field, which may be empty. It refuses an audience that still
// names a segment: without the segment's expression it would have more endpoints.
func (a *Audience) Select(field string) (*Selection, error) {
	if a.Segment != "" {
		return nil, fmt.Errorf("select an audience: its segment %.128s was not looked up", a.Segment)
	}
	return a.selection(field)
}

// Check validates an audience as its author wrote it. Whether there is such a segment is not looked up.
func (a *Audience) Check(field string) error {
	if a.Segment != "" {
		if err := notification.CheckName(part(field, "segment"), a.Segment); err != nil {
			return err
		}
	}
	_, err := a.selection(field)
	return err
}

// Within returns the audience with a segment's expression in the place of its name. Both expressions must be valid; together they have the
// limits of one.
func (a *Audience) Within(segment string) Audience {
	in := *a
	in.Segment, in.Where = "", both(segment, a.Where)
	return in
}

// both returns an expression that holds where both do; an empty one holds everywhere.
func both(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return "(" + a + ") and (" + b + ")"
}

// part returns the name of a field within another one, which may be empty.
func part(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

func (a *Audience) selection(field string) (*Selection, error) {
	at := func(name string) string { return part(field, name) }
	for i, ch := range a.Channels {
		if !ch.Known() {
			return nil, notification.BadField(at("channels")+"["+strconv.Itoa(i)+"]", "%.40q is not a channel", ch)
		}
	}
	if len(a.Channels) > len(push.Channels()) {
		return nil, notification.BadField(at("channels"), "names a channel twice")
	}
	if len(a.Recipients) > MaxRecipients {
		return nil, notification.BadField(at("recipients"), "has %d members; at most %d are allowed, give them a tag", len(a.Recipients), MaxRecipients)
	}
	for i, name := range a.Recipients {
		if err := notification.CheckName(at("recipients")+"["+strconv.Itoa(i)+"]", name); err != nil {
			return nil, err
		}
	}
	if len(a.Endpoints) > MaxEndpoints {
		return nil, notification.BadField(at("endpoints"), "has %d members; at most %d are allowed, give them a tag", len(a.Endpoints), MaxEndpoints)
	}
	ids := make([]ID, len(a.Endpoints))
	for i, text := range a.Endpoints {
		var err error
		if ids[i], err = ParseID(text); err != nil {
			return nil, notification.BadField(at("endpoints")+"["+strconv.Itoa(i)+"]", "%.40q is not the id of an endpoint: write its ULID or UUID", text)
		}
	}
	for name, tags := range map[string][]string{"tags_any": a.TagsAny, "tags_all": a.TagsAll} {
		if len(tags) > maxAudienceTags {
			return nil, notification.BadField(at(name), "has %d members; at most %d are allowed", len(tags), maxAudienceTags)
		}
		for i, t := range tags {
			if err := checkTag(at(name)+"["+strconv.Itoa(i)+"]", t); err != nil {
				return nil, err
			}
		}
	}
	s := &Selection{Channels: a.Channels, Recipients: a.Recipients, Endpoints: ids, TagsAny: a.TagsAny, TagsAll: a.TagsAll}
	if a.Where == "" {
		return s, nil
	}
	var err error
	if s.Where, err = Parse(a.Where); err != nil {
		return nil, notification.BadField(at("where"), "%s", err)
	}
	return s, nil
}

// Match reports whether an endpoint, disabled or not, is in the selection. Stores must select the same endpoints.
func (s *Selection) Match(e *Endpoint) bool {
	return among(s.Channels, e.Channel) && among(s.Recipients, e.Recipient) && among(s.Endpoints, e.ID) &&
		(len(s.TagsAny) == 0 || hasAny(e.Tags, s.TagsAny)) && hasAll(e.Tags, s.TagsAll) &&
		(s.Where == nil || s.Where.Match(e))
}
