package backend

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// draft is a decoded publish, with facts that only the request's form shows.
type draft struct {
	notification.Draft
	list bool // to was a list, so the answer is a list too

	given   uint32 // fields seen, by bit: a field given twice is refused
	content content
	phones  *template.Phones // nil: it says nothing for phones alone
}

// content holds data in its JSON form, which depends on its content type.
type content struct {
	given, base64 bool
	raw           []byte // JSON; borrowed from the body
	encoded       string
}

// settle returns the data, called name in the request, and its content type.
func (d *content) settle(name, contentType string) (data []byte, _ string, err error) {
	switch {
	case d.given && d.base64:
		return nil, "", notification.BadField(name+"_base64", "give either %s or %s_base64, not both", name, name)
	case d.base64:
		if data, err = base64.StdEncoding.DecodeString(d.encoded); err != nil {
			return nil, "", notification.BadField(name+"_base64", "is not base64: %v", err)
		}
	case !d.given:
	case contentType == "":
		return bytes.Clone(d.raw), "application/json", nil
	case notification.IsJSON(contentType):
		data = bytes.Clone(d.raw)
	default:
		var text string
		if d.raw[0] != '"' {
			return nil, "", call.WrongType(name, "a string, since content_type is "+notification.Clip(contentType), d.raw)
		}
		if err := json.Unmarshal(d.raw, &text); err != nil {
			return nil, "", problem.BadJSON.Withf("%s: %v", name, err)
		}
		data = []byte(text)
	}
	return data, contentType, nil
}

// fieldNames lists the fields of a publish; the index is the bit in draft.given.
var fieldNames = [...]string{
	"to", "id", "title", "body", "category", "data", "data_base64", "content_type", "ttl", "expires_at", "send_at",
	"collapse_key", "priority", "ack", "escalate", "reply_by", "template", "variables", "locale", "digest_key", "inbox", "keep", "actions",
	"fcm", "apns", "live_activity",
}

// ReadDraft reads a publish.
func ReadDraft(body []byte) (*notification.Draft, error) {
	d, err := decodeDraft(body)
	if err != nil {
		return nil, err
	}
	return &d.Draft, nil
}

// decodeDraft reads one publish. The result does not refer to body.
func decodeDraft(body []byte) (*draft, error) {
	if !utf8.Valid(body) {
		return nil, problem.BadJSON.New()
	}
	d := new(draft)
	s := scanner{in: body}
	if !s.take('{') {
		return nil, s.syntax("an object")
	}
	for first := true; ; first = false {
		more, err := s.next(first, '}')
		if err != nil {
			return d, err
		}
		if !more {
			break
		}
		if err := d.member(&s); err != nil {
			return d, err
		}
	}
	err := s.end()
	if err != nil {
		return d, err
	}
	if d.phones != nil {
		if d.Phones, err = json.Marshal(d.phones); err != nil {
			return d, err
		}
	}
	c := &d.Content
	c.Data, c.ContentType, err = d.content.settle("data", c.ContentType)
	d.content = content{}
	return d, err
}

func (d *draft) member(s *scanner) error {
	key, err := s.key()
	if err != nil {
		return err
	}
	name, bit := known(key)
	if name == "" {
		return notification.BadField(notification.Clip(string(key)), "is not a known field")
	}
	if d.given&bit != 0 {
		return notification.BadField(name, "is given twice")
	}
	d.given |= bit
	if s.null() {
		return nil
	}
	return d.field(s, name)
}

func known(key []byte) (name string, bit uint32) {
	for i, f := range fieldNames {
		if string(key) == f {
			return f, 1 << i
		}
	}
	return "", 0
}

func (d *draft) field(s *scanner, name string) (err error) {
	switch name {
	case "to":
		err = d.recipients(s)
	case "id":
		if d.ID, err = s.str(name); err == nil && d.ID == "" {
			err = notification.BadField(name, "is empty; leave it out to have one made")
		}
	case "title":
		d.Content.Title, err = s.str(name)
	case "body":
		d.Content.Body, err = s.str(name)
	case "category":
		d.Content.Category, err = s.str(name)
	case "data":
		d.content.given = true
		d.content.raw, err = s.skip()
	case "data_base64":
		d.content.base64 = true
		d.content.encoded, err = s.str(name)
	case "content_type":
		d.Content.ContentType, err = s.str(name)
	case "ttl":
		d.TTL, err = s.positiveDuration(name)
	case "reply_by":
		d.ReplyBy, err = s.positiveDuration(name)
	case "inbox":
		var is bool
		is, err = s.boolean(name)
		d.Inbox = &is
	case "keep":
		d.Keep, err = s.positiveDuration(name)
	case "actions":
		d.Actions, err = s.actions(name)
	case "expires_at":
		d.ExpiresAt, err = s.time(name)
	case "send_at":
		d.SendAt, err = s.time(name)
	case "collapse_key":
		d.CollapseKey, err = s.str(name)
	case "priority":
		d.Priority, err = s.priority(name)
	case "ack":
		d.Ack, err = s.ackMode(name)
	case "template":
		d.Template, err = s.str(name)
	case "variables":
		d.Variables, err = s.variables(name)
	case "locale":
		d.Locale, err = s.str(name)
	case "digest_key":
		d.DigestKey, err = s.str(name)
	case "escalate":
		d.Escalate, err = s.steps(name)
	case "fcm", "apns", "live_activity":
		err = d.phone(s, name)
	}
	return err
}

// phone reads what a publish says for phones alone.
func (d *draft) phone(s *scanner, name string) error {
	raw, err := s.skip()
	if err != nil {
		return err
	}
	if d.phones == nil {
		d.phones = new(template.Phones)
	}
	return d.phones.ReadPhone(call.ReadValue, name, raw)
}

func (d *draft) recipients(s *scanner) error {
	switch s.peek() {
	case '"':
		to, err := s.str("to")
		d.To = []string{to}
		return err
	case '[':
		d.list = true
		s.pos++
	default:
		return s.wrongType("to", "a recipient's name or a list of them")
	}
	for first := true; ; first = false {
		more, err := s.next(first, ']')
		if err != nil || !more {
			return err
		}
		if len(d.To) == notification.MaxRecipients {
			return notification.BadField("to", "has more than %d recipients", notification.MaxRecipients)
		}
		if s.peek() != '"' {
			return s.wrongType("to["+strconv.Itoa(len(d.To))+"]", "a recipient's name")
		}
		to, err := s.str("to")
		if err != nil {
			return err
		}
		d.To = append(d.To, to)
	}
}

func (s *scanner) steps(field string) (steps []notification.Step, err error) {
	if s.peek() != '[' {
		return nil, s.wrongType(field, "a list of steps")
	}
	s.pos++
	for first := true; ; first = false {
		more, err := s.next(first, ']')
		if err != nil || !more {
			return steps, err
		}
		if len(steps) == notification.MaxSteps {
			return nil, notification.BadField(field, "has more than %d steps", notification.MaxSteps)
		}
		step, err := s.step(fmt.Sprintf("%s[%d]", field, len(steps)))
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
}

func (s *scanner) step(field string) (step notification.Step, err error) {
	if s.peek() != '{' {
		return step, s.wrongType(field, "an object")
	}
	s.pos++
	for first := true; ; first = false {
		more, err := s.next(first, '}')
		if err != nil {
			return step, err
		}
		if !more {
			break
		}
		key, err := s.key()
		if err != nil {
			return step, err
		}
		switch string(key) {
		case "channel":
			step.Channel, err = s.str(field + ".channel")
		case "after":
			step.After, err = s.duration(field + ".after")
		case "settle":
			step.Shown, err = s.settle(field + ".settle")
		case "withdraw":
			var withdraw bool
			withdraw, err = s.boolean(field + ".withdraw")
			step.Keep = !withdraw
		case "to":
			if step.To, err = s.str(field + ".to"); err == nil && step.To == "" {
				err = notification.BadField(field+".to", "is empty")
			}
		default:
			err = notification.BadField(notification.Clip(field+"."+string(key)), "is not a known field")
		}
		if err != nil {
			return step, err
		}
	}
	if step.Channel == "" {
		return step, notification.BadField(field+".channel", "is required")
	}
	return step, nil
}
