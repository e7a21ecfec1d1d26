package resource

import (
	"context"
	"slices"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
)

// Line is a hook, a sink or a source as pages list it.
type Line struct {
	Kind, Name, URL string // Kind as it occurs in the paths of actions, such as hooks
	State, Class    string
	Paused          bool  // by a person, or by itself
	Count           int64 // of what it has done
	Remade          int64 // of these, events that a sink had made anew
	Last            time.Time
	Error           string
	Since           time.Time // since when it fails
	Testable        bool
	Previews        bool // a source that shows what rows would become
	Resyncs         bool // a source, which can begin anew
}

// classed adds the class of its state.
func (one *Line) classed() *Line {
	one.Class = "completed"
	switch {
	case one.Error != "" && !one.Paused:
		one.Class = "failed"
	case one.Paused, one.State == string(sink.Waiting):
		one.Class = "paused"
	}
	return one
}

// OfHook returns the line of a hook.
func OfHook(h *hook.Info) *Line {
	l := Line{
		Kind: "hooks", Name: h.Hook.Name, URL: h.URL, State: string(h.State), Paused: h.State == hook.Paused || h.State == hook.Disabled, Count: int64(h.Delivered),
		Last: h.LastDelivered, Error: h.LastError, Since: h.Progress.Failing, Testable: true,
	}
	if h.Progress.Paused != "" {
		l.Error, l.Since = h.Progress.Paused, h.PausedAt
	}
	return l.classed()
}

// OfSink returns the line of a sink.
func OfSink(s *sink.Info) *Line {
	l := Line{
		Kind: "sinks", Name: s.Kind, URL: first(s.Addresses), State: string(s.State), Paused: s.State == sink.Disabled || s.State == sink.Stopped, Count: int64(s.Written),
		Last: s.Last, Error: s.Error, Since: s.Since,
	}
	if s.Gaps > 0 {
		l.Remade = int64(s.Reconciled)
	}
	return l.classed()
}

// OfSource returns the line of a source.
func OfSource(s *source.Info) *Line {
	l := Line{
		Kind: "sources", Name: s.Name, URL: first(s.Addresses), State: string(s.State), Paused: s.State == source.Paused, Count: int64(s.Counts.Stored),
		Error: s.Error, Since: s.Since, Previews: s.Previews, Resyncs: true,
	}
	return l.classed()
}

// first returns the first address; a kind from another version has none.
func first(addresses []string) string {
	if len(addresses) == 0 {
		return ""
	}
	return addresses[0]
}

// Switch pauses or resumes a hook, sink or source. kind is as in the paths of the pages.
func (p Place) Switch(ctx context.Context, kind, name string, on *bool) (err error) {
	switch kind {
	case "hooks":
		var h hook.Info
		if h, err = p.Hooks.Get(ctx, p.App, name); err == nil {
			_, _, _, err = p.Hooks.Set(ctx, p.App, name, hook.Change{URL: h.URL, Types: slices.Clone(h.Types), Enabled: on})
		}
	case "sinks":
		var s sink.Info
		if s, err = p.Sinks.Get(ctx, p.App, name); err == nil {
			_, _, err = p.Sinks.Set(ctx, p.App, name, sink.Change{Enabled: on, Private: s.Private})
		}
	default:
		var s source.Info
		if s, err = p.Sources.Get(p.App, name); err == nil {
			_, _, err = p.Sources.Set(ctx, p.App, name, source.Change{Enabled: on, Private: s.Private})
		}
	}
	return err
}

// Again posts the events of a hook after one of them again.
func (p Place) Again(ctx context.Context, name, since string) error {
	id, err := strconv.ParseUint(since, 10, 64)
	if err != nil {
		return notification.BadField("since", "must be the id of an event, or 0 for all that are kept")
	}
	_, err = p.Hooks.Replay(ctx, p.App, name, id)
	return err
}

// Resync makes a source begin anew.
func (p Place) Resync(ctx context.Context, name string) error {
	s, err := p.Sources.Get(p.App, name)
	if err == nil {
		on := true
		_, _, err = p.Sources.Set(ctx, p.App, name, source.Change{Enabled: &on, Resync: true, Private: s.Private})
	}
	return err
}

// Preview is what the rows of a source's tables would become.
type Preview struct {
	Name string
	source.Preview
}

// Preview shows what rows would become, as the source is stored.
func (p Place) Preview(ctx context.Context, name string) (*Preview, error) {
	preview, err := p.Sources.Preview(ctx, p.App, name, source.Change{})
	return &Preview{name, preview}, err
}
