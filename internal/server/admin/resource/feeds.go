package resource

import (
	"context"
	"maps"
	"slices"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
)

const feedsHere, feedsPath = "integrations", "/ui/integrations"

// enabled is a field of hooks, sinks and sources.
var enabled = Input{Field: setting.Field{Name: "enabled", Type: setting.Bool, Default: setting.JSON(true)}, Word: "Switched on", Hint: "While it is off, everything waits where it is."}

// eventWords are what people call the types of events.
var eventWords = map[event.Type]string{
	event.Stored: "accepted for sending", event.Delivered: "delivered to a session", event.Acked: "acknowledged", event.Replied: "answered", event.Expired: "expired", event.Replaced: "replaced by a newer one",
	event.Recalled: "taken back", event.Failed: "failed", event.Online: "a recipient connected", event.Offline: "a recipient left", event.StepAccepted: "a step was accepted by its channel", event.StepFailed: "a step failed",
	event.StepUnknown: "a step may have been sent", event.StepWithdrawn: "a step was withdrawn", event.Exhausted: "all steps are done", event.Pressed: "a button was pressed",
	event.Gathered: "one waits in a digest", event.Digested: "one went into a digest",
	event.Seen: "a person saw it in the inbox", event.Read: "a person read it in the inbox", event.Archived: "a person put it away in the inbox",
}

var hooks = Kind{
	Path: "/ui/hooks", API: "/v1/hooks", Name: "hook", One: "hook", Here: feedsHere, Back: feedsPath + "#hooks", List: "Hooks, sinks, sources", Docs: "/docs/guides/hooks",
	NameField: "name", NameWord: "Name", NameHint: "Short, like billing. It cannot be changed later.",
	Inputs: func(_ Place, _ string, isNew bool) ([]Input, error) {
		types := make([]Option, len(event.Types))
		for i, t := range event.Types {
			types[i] = Option{Value: string(t), Text: string(t)}
			if word, ok := eventWords[t]; ok {
				types[i].Text = word
			}
		}
		secrets := Input{Field: setting.Field{Name: "secrets", Type: setting.List, Secret: true, Lines: true}, Anew: "Make a new secret: the present one ends at once"}
		if isNew {
			secrets.Hint = "Left empty, one is made and shown once. Your program checks with it that an event is genuine."
		}
		return []Input{
			{Field: setting.Field{Name: "url", Address: true}, Like: "https://billing.example.org/godwit"},
			{Field: setting.Field{Name: "types", Type: setting.List}, Options: types},
			secrets, enabled,
		}, nil
	},
	Get: func(ctx context.Context, p Place, name string) (Stored, error) {
		h, err := p.Hooks.Get(ctx, p.App, name)
		if err != nil {
			return Stored{}, err
		}
		types := make([]string, len(h.Types))
		for i, t := range h.Types {
			types[i] = string(t)
		}
		s := Stored{
			Name: h.Hook.Name, Values: setting.Values{"url": setting.JSON(h.URL), "types": setting.JSON(types), "enabled": setting.JSON(h.Enabled)},
			Revision: setting.RevisionAt(h.UpdatedAt), State: OfHook(&h),
		}
		if len(h.Secrets) > 0 {
			s.Secrets = []string{"secrets"}
		}
		return s, nil
	},
	Set: func(ctx context.Context, p Place, name string, c Change) (string, error) {
		on := c.Values.Bool("enabled")
		change := hook.Change{URL: c.Values.Text("url"), Enabled: &on, Must: c.Must}
		if _, given := c.Values["secrets"]; given {
			change.Secrets = append([]string{}, c.Values.List("secrets")...)
		}
		for _, t := range c.Values.List("types") {
			change.Types = append(change.Types, event.Type(t))
		}
		_, _, made, err := p.Hooks.Set(ctx, p.App, name, change)
		return made, err
	},
	Drop: func(ctx context.Context, p Place, name string, must setting.Match) (string, error) {
		return "", p.Hooks.Delete(ctx, p.App, name, must)
	},
}

var sinks = Kind{
	Path: "/ui/sinks", API: "/v1/sinks", Name: "sink", One: "sink", Here: feedsHere, Back: feedsPath + "#sinks", List: "Hooks, sinks, sources", Docs: "/docs/guides/clickhouse", KindIsName: true,
	Kinds: func(ctx context.Context, p Place) ([]string, error) {
		list, err := p.Sinks.List(ctx, p.App)
		return slices.DeleteFunc(p.Sinks.Kinds(), func(kind string) bool {
			return slices.ContainsFunc(list, func(s sink.Info) bool { return s.Kind == kind })
		}), err
	},
	Inputs: func(p Place, kind string, isNew bool) ([]Input, error) {
		fields, err := p.Sinks.Fields(kind)
		inputs := inputsOf(fields)
		if isNew {
			inputs = append(inputs, Input{Field: setting.Field{Name: "backfill", Type: setting.Bool}})
		}
		return append(inputs, enabled), err
	},
	Get: func(ctx context.Context, p Place, name string) (Stored, error) {
		s, err := p.Sinks.Get(ctx, p.App, name)
		if err != nil {
			return Stored{}, err
		}
		return Stored{Name: s.Kind, Kind: s.Kind, Values: withEnabled(s.Values, s.Enabled), Secrets: s.Credentials, Revision: setting.RevisionAt(s.UpdatedAt), State: OfSink(&s)}, nil
	},
	Set: func(ctx context.Context, p Place, name string, c Change) (string, error) {
		on, backfill := c.Values.Bool("enabled"), c.Values.Bool("backfill")
		_, _, err := p.Sinks.Set(ctx, p.App, name, sink.Change{Values: ofKind(c.Values), Enabled: &on, Backfill: &backfill, Must: c.Must})
		return "", err
	},
	Drop: func(ctx context.Context, p Place, name string, must setting.Match) (string, error) {
		return "", p.Sinks.Delete(ctx, p.App, name, must)
	},
}

var sources = Kind{
	Path: "/ui/sources", API: "/v1/sources", Name: "source", One: "source", Here: feedsHere, Back: feedsPath + "#sources", List: "Hooks, sinks, sources", Docs: "/docs/guides/sources",
	NameField: "name", NameWord: "Name", NameHint: "Short, like orders. It cannot be changed later.",
	Kinds: func(_ context.Context, p Place) ([]string, error) { return p.Sources.Kinds(), nil },
	Inputs: func(p Place, kind string, _ bool) ([]Input, error) {
		fields, err := p.Sources.Fields(kind)
		return append(inputsOf(fields), enabled), err
	},
	Get: func(ctx context.Context, p Place, name string) (Stored, error) {
		s, err := p.Sources.Get(p.App, name)
		if err != nil {
			return Stored{}, err
		}
		return Stored{Name: s.Name, Kind: s.Kind, Values: withEnabled(s.Values, s.Enabled), Secrets: s.Credentials, Revision: setting.RevisionAt(s.UpdatedAt), State: OfSource(&s)}, nil
	},
	Set: func(ctx context.Context, p Place, name string, c Change) (string, error) {
		on := c.Values.Bool("enabled")
		_, _, err := p.Sources.Set(ctx, p.App, name, source.Change{Kind: c.Kind, Values: ofKind(c.Values), Enabled: &on, Must: c.Must})
		return "", err
	},
	Drop: func(ctx context.Context, p Place, name string, must setting.Match) (string, error) {
		return p.Sources.Delete(ctx, p.App, name, must)
	},
	Previews: func(p Place, kind string) bool { return p.Sources.Previews(kind) },
	Preview: func(ctx context.Context, p Place, name string, c Change) (*Preview, error) {
		preview, err := p.Sources.Preview(ctx, p.App, name, source.Change{Kind: c.Kind, Values: ofKind(c.Values)})
		return &Preview{name, preview}, err
	},
}

// ofKind returns the values of a kind's own fields.
func ofKind(values setting.Values) setting.Values {
	own := maps.Clone(values)
	delete(own, "enabled")
	delete(own, "backfill")
	return own
}

// withEnabled returns values with that of the field enabled.
func withEnabled(values setting.Values, on bool) setting.Values {
	all := setting.Values{"enabled": setting.JSON(on)}
	maps.Copy(all, values)
	return all
}
