package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Phones are what a publish says for phones alone. They go before those of its template.
type Phones struct {
	FCM      *push.FCMContent      `json:"fcm,omitempty"`
	APNs     *push.APNsContent     `json:"apns,omitempty"`
	Activity *push.ActivityContent `json:"live_activity,omitempty"`
}

// ReadPhone reads one of the members fcm, apns and live_activity of a publish.
func (p *Phones) ReadPhone(name string, raw json.RawMessage) (err error) {
	switch name {
	case "fcm":
		p.FCM = new(push.FCMContent)
		if err = strict(name, raw, p.FCM); err == nil {
			err = p.FCM.Check(name)
		}
	case "apns":
		p.APNs = new(push.APNsContent)
		if err = strict(name, raw, p.APNs); err == nil {
			err = p.APNs.Check(name)
		}
	case "live_activity":
		p.Activity = new(push.ActivityContent)
		if err = strict(name, raw, p.Activity); err == nil {
			err = p.Activity.Check(name)
		}
	}
	return err
}

// CheckPhones checks a JSON object with these members; in is the name of the field that contains it. Empty: there is none.
func CheckPhones(in, text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &members) != nil || members == nil {
		return nil, notification.BadField(in, "must be a JSON object with fcm, apns and live_activity")
	}
	var p Phones
	for name, raw := range members {
		switch name {
		case "fcm", "apns", "live_activity":
			if err := p.ReadPhone(name, raw); err != nil {
				return nil, err
			}
		default:
			return nil, notification.BadField(in+"."+notification.Clip(name), "is not a known field")
		}
	}
	return json.Marshal(p)
}

// strict decodes an object whose members are all known.
func strict(in string, raw json.RawMessage, to any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(to)
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &kind) && kind.Field != "":
		return notification.BadField(in+"."+kind.Field, "is a JSON %s; it must be %s", kind.Value, kindOf(kind.Type.String()))
	case errors.As(err, &kind):
		return notification.BadField(in, "is a JSON %s; it must be an object", kind.Value)
	}
	if _, name, ok := strings.Cut(err.Error(), "json: unknown field "); ok {
		return notification.BadField(in+"."+notification.Clip(strings.Trim(name, `"`)), "is not a known field")
	}
	return notification.BadField(in, "is not JSON: %s", err)
}

// kindOf names a type of Go in the words of JSON.
func kindOf(typ string) string {
	switch strings.TrimPrefix(typ, "*") {
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "int":
		return "a whole number"
	case "float64":
		return "a number"
	}
	return "an object"
}

// checkPhones validates what a content has for phones alone.
func checkPhones(in string, c *push.Content) error {
	if err := c.FCM.Check(in + "fcm"); err != nil {
		return err
	}
	if err := c.APNs.Check(in + "apns"); err != nil {
		return err
	}
	if c.Activity == nil {
		return nil
	}
	return c.Activity.Check(in + "live_activity")
}

// into puts what is said for phones into a content.
func (p *Phones) into(c *push.Content) {
	if p.FCM != nil {
		c.FCM = *p.FCM
	}
	if p.APNs != nil {
		c.APNs = *p.APNs
	}
	if p.Activity != nil {
		c.Activity = p.Activity
	}
}

// fillPhones makes the content for push channels of a draft without a template. Its texts are what the publisher wrote: they have no
// variables.
func fillPhones(d *notification.Draft) error {
	m := Message{Content: Content{Content: push.Content{Title: d.Content.Title, Body: d.Content.Body, Category: d.Content.Category}}, OwnData: true, Plain: true}
	if err := readPhones(d, &m.Content.Content); err != nil {
		return err
	}
	if !escalates(d) {
		return nil
	}
	var err error
	if d.Content.Push, err = json.Marshal(m); err != nil {
		return fmt.Errorf("encode what phones get: %w", err)
	}
	return nil
}

func readPhones(d *notification.Draft, c *push.Content) error {
	var p Phones
	if len(d.Phones) > 0 {
		if err := json.Unmarshal(d.Phones, &p); err != nil {
			return fmt.Errorf("read what phones get: %w", err)
		}
	}
	p.into(c)
	return needsActivity(d, c)
}

// needsActivity refuses a step that starts a Live Activity without saying which.
func needsActivity(d *notification.Draft, c *push.Content) error {
	for i, step := range d.Escalate {
		if step.Channel == string(push.LiveActivityStart) && c.Activity == nil {
			return notification.BadField(fmt.Sprintf("escalate[%d].channel", i), "liveactivitystart needs live_activity, which says what starts")
		}
	}
	return nil
}

func escalates(d *notification.Draft) bool {
	for _, step := range d.Escalate {
		if step.Channel != notification.Live {
			return true
		}
	}
	return false
}
