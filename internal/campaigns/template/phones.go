package template

import (
	"encoding/json"
	"fmt"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Phones are what a publish says for phones alone. They go before those of its template.
type Phones struct {
	FCM      *push.FCMContent      `json:"fcm,omitempty"`
	APNs     *push.APNsContent     `json:"apns,omitempty"`
	Activity *push.ActivityContent `json:"live_activity,omitempty"`
}

// Reader decodes a JSON value of a field; it refuses unknown members and says which field is wrong.
type Reader func(field string, raw json.RawMessage, into any) error

// ReadPhone reads one of the members fcm, apns and live_activity of a publish.
func (p *Phones) ReadPhone(read Reader, name string, raw json.RawMessage) error {
	var to interface{ Check(in string) error }
	switch name {
	case "fcm":
		p.FCM = new(push.FCMContent)
		to = p.FCM
	case "apns":
		p.APNs = new(push.APNsContent)
		to = p.APNs
	default:
		p.Activity = new(push.ActivityContent)
		to = p.Activity
	}
	if string(raw) != "null" {
		if err := read(name, raw, to); err != nil {
			return err
		}
	}
	return to.Check(name)
}

// CheckPhones checks a JSON object with these members; in is the name of the field that contains it. Empty: there is none.
func CheckPhones(read Reader, in, text string) (json.RawMessage, error) {
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
			if err := p.ReadPhone(read, name, raw); err != nil {
				return nil, err
			}
		default:
			return nil, notification.BadField(in+"."+notification.Clip(name), "is not a known field")
		}
	}
	return json.Marshal(p)
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
