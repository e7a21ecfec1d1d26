package httpapi

import (
	"encoding/json"
	"slices"

	"godwit.dev/godwit/internal/audience"
)

// decodeRegistration reads one endpoint and holds it against what its sender may say.
func (a *api) decodeRegistration(body []byte, h *holder) (r audience.Registration, err error) {
	var e audience.Endpoint
	if err := registrationFields(&e).decodeOrNull(body); err != nil {
		return r, err
	}
	return a.Endpoints.Registration(&h.Holder, e)
}

func registrationFields(e *audience.Endpoint) fields {
	return fields{
		"id": text(func(_, id string) (err error) {
			e.ID, err = audience.ParseID(id)
			return err
		}),
		"channel": &e.Channel, "recipient": &e.Recipient, "address": &e.Address, "tags": texts(&e.Tags, audience.MaxTags, nil),
		"attributes": reader(func(_ string, raw json.RawMessage) (err error) {
			var gone []string
			if e.Attributes, gone, err = audience.DecodeAttributes(raw); err == nil && len(gone) > 0 {
				err = badField("attributes."+clip(gone[0]), "must be a text, a number, true or false")
			}
			return err
		}),
		"locale": &e.Locale, "timezone": &e.Timezone,
	}
}

// decodeChange reads what to change of an endpoint: what is not named stays, null takes away.
func decodeChange(body []byte, h *holder) (change func(*audience.Endpoint), err error) {
	var changes []func(*audience.Endpoint)
	members := changeFields(func(f func(*audience.Endpoint)) { changes = append(changes, f) })
	for name := range members {
		if err := h.MayChange(name); err != nil {
			members[name] = reader(func(string, json.RawMessage) error { return err })
		}
	}
	err = members.decode(body)
	return func(e *audience.Endpoint) {
		for _, f := range changes {
			f(e)
		}
	}, err
}

// changeFields are what of an endpoint can be changed; add is told how, in the order of the request.
func changeFields(add func(func(*audience.Endpoint))) fields {
	return fields{
		"address": reader(func(_ string, raw json.RawMessage) error {
			add(func(e *audience.Endpoint) { e.Address = raw })
			return nil
		}),
		"tags":     changeTags(add, func(_, list []string) []string { return list }),
		"add_tags": changeTags(add, func(was, list []string) []string { return append(slices.Clone(was), list...) }),
		"remove_tags": changeTags(add, func(was, list []string) []string {
			return slices.DeleteFunc(slices.Clone(was), func(t string) bool { return slices.Contains(list, t) })
		}),
		"attributes":      reader(func(_ string, raw json.RawMessage) error { return changeAttributes(raw, add) }),
		"recipient":       changeText(add, func(e *audience.Endpoint) *string { return &e.Recipient }),
		"locale":          changeText(add, func(e *audience.Endpoint) *string { return &e.Locale }),
		"timezone":        changeText(add, func(e *audience.Endpoint) *string { return &e.Timezone }),
		"disabled_reason": changeText(add, func(e *audience.Endpoint) *string { return &e.DisabledReason }),
		"status": text(func(field, status string) error {
			if status != string(audience.Active) && status != string(audience.Disabled) {
				return badField(field, "%q is none of active, disabled", clip(status))
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

func changeText(add func(func(*audience.Endpoint)), of func(*audience.Endpoint) *string) reader {
	return func(field string, raw json.RawMessage) (err error) {
		value := ""
		if string(raw) != "null" {
			err = readValue(field, raw, &value)
		}
		add(func(e *audience.Endpoint) { *of(e) = value })
		return err
	}
}

func changeTags(add func(func(*audience.Endpoint)), change func(was, list []string) []string) reader {
	return func(field string, raw json.RawMessage) (err error) {
		list := []string{}
		if string(raw) != "null" {
			err = texts(&list, audience.MaxTags, nil)(field, raw)
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
