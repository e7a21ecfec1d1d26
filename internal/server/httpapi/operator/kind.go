package operator

import (
	"encoding/json"
	"fmt"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// ofKind is the form of a kind's settings in answers: its name, the values of its fields, then the members of all kinds. Secrets are
// replaced by the names of those that are set.
type ofKind[E interface{ tag() *string }] struct {
	what   string // in words: sink
	kind   string
	values setting.Values
	view   setting.View
	every  E
}

func (o ofKind[E]) tag() *string { return o.every.tag() }

// MarshalJSON implements json.Marshaler.
func (o ofKind[E]) MarshalJSON() ([]byte, error) {
	every, err := json.Marshal(o.every)
	if err != nil {
		return nil, err
	}
	out := fmt.Appendf(nil, `{%q:%q`, o.what, o.kind)
	credentials := fmt.Appendf(nil, `,"credentials":%s`, setting.JSON(o.view.Credentials))
	for _, f := range o.view.Fields {
		if f.Secret {
			out, credentials = append(out, credentials...), nil
		} else {
			out = fmt.Appendf(out, `,%q:%s`, f.Name, o.values.Shown(f))
		}
	}
	return append(append(append(out, credentials...), ','), every[1:]...), nil
}

// decodeValues reads the values of a kind's fields, and members of all kinds. Null removes a secret.
func decodeValues(body []byte, fields []setting.Field, members call.Fields) (setting.Values, error) {
	v := setting.Values{}
	for _, f := range fields {
		members[f.Name] = valueOf(f, f.Secret, func(value any) { v[f.Name] = setting.JSON(value) })
	}
	return v, members.Decode(body)
}

// mostWords limits the words in a list whose field has no limit of its own.
const mostWords = 16

// valueOf reads the value of a field and passes it to take: a text, a boolean, a list or a duration. Null, if allowed,
// becomes "".
func valueOf(f setting.Field, null bool, take func(value any)) call.Reader {
	return func(field string, raw json.RawMessage) (err error) {
		var value any = ""
		switch {
		case null && string(raw) == "null":
		case f.Type == setting.Tree:
			value = raw
		case f.Type == setting.Bool:
			value, err = read[bool](field, raw)
		case f.Type == setting.List, f.Type == setting.Words && raw[0] == '[':
			most := f.Most
			if most == 0 {
				most = mostWords
			}
			var list []string
			err = call.Texts(&list, most, call.Word)(field, raw)
			value = list
		case f.Type == setting.Days:
			var text string
			if text, err = read[string](field, raw); err == nil {
				if value, err = notification.ParseDuration(text); err != nil {
					err = notification.BadField(field, "%s", err)
				}
			}
		default:
			value, err = read[string](field, raw)
		}
		if err == nil {
			take(value)
		}
		return err
	}
}

func read[T any](field string, raw json.RawMessage) (v T, err error) {
	err = call.ReadValue(field, raw, &v)
	return v, err
}
