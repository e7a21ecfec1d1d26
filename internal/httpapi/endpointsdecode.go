package httpapi

import (
	"slices"
	"strconv"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/push"
)

// decodeRegistration reads one endpoint and holds it against what its sender may say.
func (a *api) decodeRegistration(body []byte, h *holder) (r audience.Registration, err error) {
	var e audience.Endpoint
	err = decodeObject(body, func(s *scanner, name string) (bool, error) {
		if s.null() {
			return slices.Contains([]string{"id", "channel", "recipient", "address", "tags", "attributes", "locale", "timezone"}, name), nil
		}
		return registrationField(s, name, &e)
	})
	if err != nil {
		return r, err
	}
	return a.Endpoints.Registration(&h.Holder, e)
}

func registrationField(s *scanner, name string, e *audience.Endpoint) (known bool, err error) {
	switch name {
	case "id":
		var text string
		if text, err = s.str(name); err == nil {
			e.ID, err = audience.ParseID(text)
		}
	case "channel":
		var text string
		text, err = s.str(name)
		e.Channel = push.Channel(text)
	case "recipient":
		e.Recipient, err = s.str(name)
	case "address":
		e.Address, err = s.skip()
	case "tags":
		e.Tags, err = s.texts(name, audience.MaxTags)
	case "attributes":
		e.Attributes, err = s.attributes()
	case "locale":
		e.Locale, err = s.str(name)
	case "timezone":
		e.Timezone, err = s.str(name)
	default:
		return false, nil
	}
	return true, err
}

func (s *scanner) attributes() (audience.Attributes, error) {
	raw, err := s.skip()
	if err != nil {
		return nil, err
	}
	a, gone, err := audience.DecodeAttributes(raw)
	if err == nil && len(gone) > 0 {
		err = badField("attributes."+clip(gone[0]), "must be a text, a number, true or false")
	}
	return a, err
}

// texts reads a list of at most so many strings. It is never nil: an empty list is not the same as none.
func (s *scanner) texts(field string, most int) (list []string, err error) {
	if s.peek() != '[' {
		return nil, s.wrongType(field, "a list of strings")
	}
	s.pos++
	list = []string{}
	for first := true; ; first = false {
		more, err := s.next(first, ']')
		if err != nil || !more {
			return list, err
		}
		if len(list) == most {
			return nil, badField(field, "has more than %d members", most)
		}
		text, err := s.str(field + "[" + strconv.Itoa(len(list)) + "]")
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
}

// decodeChange reads what to change of an endpoint: what is not named stays, null takes away.
func decodeChange(body []byte, h *holder) (change func(*audience.Endpoint), err error) {
	var changes []func(*audience.Endpoint)
	add := func(f func(*audience.Endpoint)) { changes = append(changes, f) }
	err = decodeObject(body, func(s *scanner, name string) (bool, error) {
		if err := h.MayChange(name); err != nil {
			return true, err
		}
		return changeField(s, name, add)
	})
	return func(e *audience.Endpoint) {
		for _, f := range changes {
			f(e)
		}
	}, err
}

func changeField(s *scanner, name string, add func(func(*audience.Endpoint))) (known bool, err error) {
	switch name {
	case "address":
		var raw []byte
		raw, err = s.skip()
		add(func(e *audience.Endpoint) { e.Address = raw })
	case "tags", "add_tags", "remove_tags":
		err = changeTags(s, name, add)
	case "attributes":
		var raw []byte
		if raw, err = s.skip(); err == nil {
			err = changeAttributes(raw, add)
		}
	case "recipient", "locale", "timezone", "disabled_reason":
		text := ""
		if !s.null() {
			text, err = s.str(name)
		}
		add(func(e *audience.Endpoint) { *textField(e, name) = text })
	case "status":
		var text string
		if text, err = s.str(name); err == nil && text != string(audience.Active) && text != string(audience.Disabled) {
			err = badField(name, "%q is none of active, disabled", clip(text))
		}
		add(func(e *audience.Endpoint) {
			e.Status = audience.Status(text)
			if e.Status == audience.Active {
				e.DisabledReason = ""
			}
		})
	default:
		return false, nil
	}
	return true, err
}

func textField(e *audience.Endpoint, name string) *string {
	switch name {
	case "recipient":
		return &e.Recipient
	case "locale":
		return &e.Locale
	case "timezone":
		return &e.Timezone
	}
	return &e.DisabledReason
}

func changeTags(s *scanner, name string, add func(func(*audience.Endpoint))) error {
	list := []string{}
	var err error
	if !s.null() {
		list, err = s.texts(name, audience.MaxTags)
	}
	add(func(e *audience.Endpoint) {
		switch name {
		case "tags":
			e.Tags = list
		case "add_tags":
			e.Tags = append(slices.Clone(e.Tags), list...)
		case "remove_tags":
			e.Tags = slices.DeleteFunc(slices.Clone(e.Tags), func(t string) bool { return slices.Contains(list, t) })
		}
	})
	return err
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
