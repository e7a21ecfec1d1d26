package admin

import (
	"maps"
	"net/http"
	"net/url"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/server/admin/resource"
	"godwit.dev/godwit/internal/server/admin/words"
)

// channelResource gives the form of a channel what it has in common with others.
var channelResource = resource.Kind{Name: "channel", Here: "channels", API: "/v1/channels"}

// channelInputs are the settings of a channel. None of its secrets can be removed: without it the channel would be cut off from those whom it
// reaches.
func channelInputs(fields []channel.Field) []resource.Input {
	inputs := make([]resource.Input, len(fields))
	for i, f := range fields {
		inputs[i] = resource.Input{Field: f, Word: fieldWord(f.Name), Hint: f.Help, Kept: f.Secret}
	}
	return inputs
}

// storedChannel is a channel as its form shows it.
func storedChannel(info *channel.Info) *resource.Stored {
	s := &resource.Stored{Name: string(info.Channel), Values: setting.Values{}, Secrets: info.Credentials, Revision: setting.RevisionAt(info.UpdatedAt)}
	for name, value := range info.Settings {
		s.Values[name] = setting.JSON(value)
	}
	return s
}

// channelValues are the values that a form gives, as channels store them.
func channelValues(inputs []resource.Input, values setting.Values) channel.Values {
	stored := channel.Values{}
	for i := range inputs {
		name := inputs[i].Name
		raw, given := values[name]
		switch {
		case !given:
		case inputs[i].Type == setting.Bool:
			if stored[name] = ""; string(raw) == "true" {
				stored[name] = "true"
			}
		default:
			stored[name] = setting.Values(values).Text(name)
		}
	}
	return stored
}

// fill adds the fields of the channel's form, and the call that does the same.
func (p *channelPage) fill(l *words.Language, fields []channel.Field, typed url.Values, problems map[string]string) {
	inputs, stored := channelInputs(fields), storedChannel(&p.Info)
	for i := range inputs {
		line := newSetting(l, &inputs[i], channelResource.Name, stored, typed, problems[inputs[i].Name])
		line.Focus = line.Problem != ""
		p.Lines, p.Secret = append(p.Lines, line), p.Secret || inputs[i].Secret
	}
	if len(inputs) > 0 {
		p.Call = resource.Call(http.MethodPut, channelResource.API+"/"+stored.Name, stored.Revision, "", inputs, asTyped(inputs, stored, resourceForm{typed: typed}))
	}
}

// readChannel reads the posted form of a channel. Secrets whose field is empty stay as they are.
func readChannel(l *words.Language, fields []channel.Field, f url.Values) (channel.Change, map[string]string) {
	inputs := channelInputs(fields)
	values, problems := resource.Read(inputs, f)
	if len(problems) > 0 {
		return channel.Change{}, sentences(l, maps.Clone(problems))
	}
	change := channel.Change{Values: channelValues(inputs, values)}
	if f.Has("revision") {
		change.Must = setting.Exactly(f.Get("revision"))
	}
	return change, nil
}
