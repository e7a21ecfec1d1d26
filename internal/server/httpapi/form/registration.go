package form

import (
	"encoding/json"
	"slices"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Registration reads an endpoint from the body of a registration.
func Registration(body []byte) (e audience.Endpoint, err error) {
	return e, registrationFields(&e).DecodeOrNull(body)
}

func registrationFields(e *audience.Endpoint) call.Fields {
	return call.Fields{
		"id": call.Text(func(_, id string) (err error) {
			e.ID, err = audience.ParseID(id)
			return err
		}),
		"channel": &e.Channel, "recipient": &e.Recipient, "address": &e.Address, "tags": call.Texts(&e.Tags, audience.MaxTags, nil),
		"attributes": call.Reader(func(_ string, raw json.RawMessage) (err error) {
			var gone []string
			if e.Attributes, gone, err = audience.DecodeAttributes(raw); err == nil && len(gone) > 0 {
				err = notification.BadField("attributes."+notification.Clip(gone[0]), "must be a text, a number, true or false")
			}
			return err
		}),
		"locale": &e.Locale, "timezone": &e.Timezone, "created_at": former(&e.CreatedAt), "last_seen_at": former(&e.LastSeenAt),
	}
}

// former reads a time that an endpoint had in another service.
func former(into *time.Time) call.Reader {
	return call.Text(func(field, text string) (err error) {
		if *into, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return notification.BadField(field, "%q is not a time; write it like 2006-01-02T15:04:05Z", notification.Clip(text))
		}
		if into.Year() < 1970 {
			return notification.BadField(field, "lies before 1970")
		}
		return nil
	})
}

// Change reads changes of an endpoint: absent members stay, null removes a value.
func Change(body []byte, who *endpoint.Holder) (change func(*audience.Endpoint), err error) {
	var owner, changes []func(*audience.Endpoint)
	members := changeFields(func(f func(*audience.Endpoint)) { changes = append(changes, f) })
	members["recipient"] = changeText(func(f func(*audience.Endpoint)) { owner = append(owner, f) }, (*audience.Endpoint).GiveTo)
	for name := range members {
		if err := who.MayChange(name); err != nil {
			members[name] = call.Reader(func(string, json.RawMessage) error { return err })
		}
	}
	err = members.Decode(body)
	return func(e *audience.Endpoint) {
		for _, f := range slices.Concat(owner, changes) {
			f(e)
		}
	}, err
}

// changeFields returns the fields that can be changed, except the owner, whose change comes first; add gets the changes in the order of the
// request.
func changeFields(add func(func(*audience.Endpoint))) call.Fields {
	return call.Fields{
		"address": call.Reader(func(_ string, raw json.RawMessage) error {
			add(func(e *audience.Endpoint) { e.Address = raw })
			return nil
		}),
		"tags":     changeTags(add, func(_, list []string) []string { return list }),
		"add_tags": changeTags(add, func(was, list []string) []string { return append(slices.Clone(was), list...) }),
		"remove_tags": changeTags(add, func(was, list []string) []string {
			return slices.DeleteFunc(slices.Clone(was), func(t string) bool { return slices.Contains(list, t) })
		}),
		"attributes":      call.Reader(func(_ string, raw json.RawMessage) error { return changeAttributes(raw, add) }),
		"locale":          changeText(add, func(e *audience.Endpoint, value string) { e.Locale = value }),
		"timezone":        changeText(add, func(e *audience.Endpoint, value string) { e.Timezone = value }),
		"disabled_reason": changeText(add, func(e *audience.Endpoint, value string) { e.DisabledReason = value }),
		"status": call.Text(func(field, status string) error {
			if status != string(audience.Active) && status != string(audience.Disabled) {
				return notification.BadField(field, "%q is none of active, disabled", notification.Clip(status))
			}
			add(func(e *audience.Endpoint) {
				e.Status = audience.Status(status)
				if e.Status == audience.Active {
					e.DisabledReason = ""
				}
			})
			return nil
		}),
	}
}

func changeText(add func(func(*audience.Endpoint)), set func(e *audience.Endpoint, value string)) call.Reader {
	return func(field string, raw json.RawMessage) (err error) {
		value := ""
		if string(raw) != "null" {
			err = call.ReadValue(field, raw, &value)
		}
		add(func(e *audience.Endpoint) { set(e, value) })
		return err
	}
}

func changeTags(add func(func(*audience.Endpoint)), change func(was, list []string) []string) call.Reader {
	return func(field string, raw json.RawMessage) (err error) {
		list := []string{}
		if string(raw) != "null" {
			err = call.Texts(&list, audience.MaxTags, nil)(field, raw)
		}
		add(func(e *audience.Endpoint) { e.Tags = change(e.Tags, list) })
		return err
	}
}

func changeAttributes(raw []byte, add func(func(*audience.Endpoint))) error {
	if string(raw) == "null" {
		add(func(e *audience.Endpoint) { e.Attributes = nil })
		return nil
	}
	values, gone, err := audience.DecodeAttributes(raw)
	add(func(e *audience.Endpoint) {
		merged := make(audience.Attributes, len(e.Attributes)+len(values))
		for name, v := range e.Attributes {
			merged[name] = v
		}
		for name, v := range values {
			merged[name] = v
		}
		for _, name := range gone {
			delete(merged, name)
		}
		e.Attributes = merged
	})
	return err
}
