package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Hooks post events to an app's own programs.
type Hooks interface {
	List(ctx context.Context, app string) ([]hook.Info, error)
	Get(ctx context.Context, app, name string) (hook.Info, error)
	Set(ctx context.Context, app, name string, c hook.Change) (info hook.Info, created bool, made string, err error)
	Test(ctx context.Context, app, name string) error
}

// Sinks write an app's events to analytics databases.
type Sinks interface {
	List(ctx context.Context, app string) ([]sink.Info, error)
	Get(ctx context.Context, app, kind string) (sink.Info, error)
	Set(ctx context.Context, app, kind string, c sink.Change) (info sink.Info, created bool, err error)
}

// Sources read an app's notifications from where its publishers already put them.
type Sources interface {
	List(app string) []source.Info
	Get(app, name string) (source.Info, error)
	Set(ctx context.Context, app, name string, c source.Change) (info source.Info, created bool, err error)
	Preview(ctx context.Context, app, name string, c source.Change) (source.Preview, error)
}

// integration is a hook, a sink or a source as the page lists it.
type integration struct {
	Kind, Name, URL string // Kind as it occurs in the paths of actions, such as hooks
	State, Class    string
	Paused          bool // by a person, or by itself
	Count           int64
	Counted         string // what Count is of
	Last            time.Time
	Error           string
	Since           time.Time // since when it fails
	Testable        bool
	Previews        bool // a source that shows what rows would become
}

// integrations is the page of the places to which events are sent and from which notifications are read.
type integrations struct {
	Groups  []integrationGroup
	Tested  *hookTest
	Preview *sourcePreview
}

type integrationGroup struct {
	ID, Title, Empty string
	Docs             string // how to set one up
	Items            []integration
}

// hookTest is the result of a test.
type hookTest struct{ Name, Outcome, Detail string }

// sourcePreview is what the rows of a source's tables would become.
type sourcePreview struct {
	Name string
	source.Preview
}

func (a *admin) showIntegrations(v *visit) error { return a.integrations(v, integrations{}) }

// integrations shows the page with the result of an action.
func (a *admin) integrations(v *visit, page integrations) error {
	ctx, app := v.r.Context(), v.person.App
	hooks, err := a.Hooks.List(ctx, app)
	if err != nil {
		return err
	}
	sinks, err := a.Sinks.List(ctx, app)
	if err != nil {
		return err
	}
	page.Groups = []integrationGroup{
		{ID: "hooks", Title: "Hooks", Docs: "/docs/guides/hooks", Empty: "No program of yours is told of events."},
		{ID: "sinks", Title: "Sinks", Docs: "/docs/guides/clickhouse", Empty: "Events go to no database of yours."},
		{ID: "sources", Title: "Sources", Docs: "/docs/guides/sources", Empty: "No notifications are taken from elsewhere."},
	}
	for i := range hooks {
		page.Groups[0].add(hookLine(&hooks[i]))
	}
	for i := range sinks {
		page.Groups[1].add(sinkLine(&sinks[i]))
	}
	for _, s := range a.Sources.List(app) {
		page.Groups[2].add(sourceLine(&s))
	}
	return a.show(v, "integrations", "Hooks, sinks, sources", "integrations", page)
}

func (g *integrationGroup) add(one integration) {
	one.Class = "completed"
	switch {
	case one.Error != "" && !one.Paused:
		one.Class = "failed"
	case one.Paused, one.State == string(sink.Waiting):
		one.Class = "paused"
	}
	if len(g.Items) < mostListed {
		g.Items = append(g.Items, one)
	}
}

func hookLine(h *hook.Info) integration {
	l := integration{
		Kind: "hooks", Name: h.Hook.Name, URL: h.URL, State: string(h.State), Paused: h.State == hook.Paused || h.State == hook.Disabled, Count: int64(h.Delivered), Counted: "events delivered", //nolint:gosec // a count
		Last: h.LastDelivered, Error: h.LastError, Since: h.Progress.Failing, Testable: true,
	}
	if h.Progress.Paused != "" {
		l.Error, l.Since = h.Progress.Paused, h.PausedAt
	}
	return l
}

func sinkLine(s *sink.Info) integration {
	counted := "events written"
	if s.Gaps > 0 {
		counted = fmt.Sprintf("events written, %d of them made anew: the log had deleted them before", s.Reconciled)
	}
	return integration{
		Kind: "sinks", Name: s.Kind, URL: first(s.Addresses), State: string(s.State), Paused: s.State == sink.Disabled || s.State == sink.Stopped, Count: int64(s.Written), Counted: counted, //nolint:gosec // a count
		Last: s.Last, Error: s.Error, Since: s.Since,
	}
}

func sourceLine(s *source.Info) integration {
	return integration{
		Kind: "sources", Name: s.Name, URL: first(s.Addresses), State: string(s.State), Paused: s.State == source.Paused, Count: int64(s.Counts.Stored), Counted: "notifications taken", //nolint:gosec // a count
		Error: s.Error, Since: s.Since, Previews: s.Previews,
	}
}

// first returns the first address; a kind from another version has none.
func first(addresses []string) string {
	if len(addresses) == 0 {
		return ""
	}
	return addresses[0]
}

// turn pauses or resumes a hook, sink or source; set changes whether it is enabled.
func (a *admin) turn(v *visit, set func(ctx context.Context, app, name string, on *bool) error) error {
	on, ok := map[string]bool{"pause": false, "resume": true}[v.r.PathValue("action")]
	if !ok {
		return errNoAction
	}
	return a.switchedTo(v, on, set(v.r.Context(), v.person.App, v.r.PathValue("name"), &on))
}

var errNoAction = &mistake{http.StatusNotFound, "There is nothing of this name to be done."}

// switchedTo redirects to the page after a switch, or says that there is nothing to switch.
func (a *admin) switchedTo(v *visit, on bool, err error) error {
	var field *notification.FieldError
	switch {
	case errors.Is(err, hook.ErrUnknown), errors.Is(err, sink.ErrUnknown), errors.Is(err, sink.ErrNone), errors.Is(err, source.ErrUnknown), errors.Is(err, source.ErrNone):
		return &mistake{http.StatusNotFound, "There is none of this name."}
	case errors.As(err, &field):
		return &mistake{http.StatusUnprocessableEntity, sentence(field.Error())}
	case err != nil:
		return err
	}
	a.Log.InfoContext(v.r.Context(), "switched on the web page", "app", v.person.App, "path", v.r.URL.Path, "on", on, "by", v.person.Name())
	a.leadTo(v, "/ui/integrations", http.StatusOK)
	return nil
}

func (a *admin) actOnHook(v *visit) error {
	name, err := nameInPath(v.r)
	if err != nil {
		return err
	}
	if v.r.PathValue("action") == "test" {
		return a.testHook(v, name)
	}
	return a.turn(v, func(ctx context.Context, app, _ string, on *bool) error {
		h, err := a.Hooks.Get(ctx, app, name)
		if err == nil {
			_, _, _, err = a.Hooks.Set(ctx, app, name, hook.Change{URL: h.URL, Types: slices.Clone(h.Types), Enabled: on})
		}
		return err
	})
}

// testHook posts a test event and shows its outcome.
func (a *admin) testHook(v *visit, name string) error {
	err := a.Hooks.Test(v.r.Context(), v.person.App, name)
	if errors.Is(err, hook.ErrUnknown) {
		return a.switchedTo(v, false, err)
	}
	t := &hookTest{Name: name, Outcome: push.Outcome(err)}
	if err != nil {
		t.Detail = err.Error()
	}
	a.Log.InfoContext(v.r.Context(), "hook tested on the web page", "app", v.person.App, "hook", name, "ok", err == nil, "by", v.person.Name())
	if v.r.Header.Get("HX-Request") != "" {
		return a.part(v, "integrations", "tested", t)
	}
	return a.integrations(v, integrations{Tested: t})
}

func (a *admin) actOnSink(v *visit) error {
	return a.turn(v, func(ctx context.Context, app, kind string, on *bool) error {
		s, err := a.Sinks.Get(ctx, app, kind)
		if err == nil {
			_, _, err = a.Sinks.Set(ctx, app, kind, sink.Change{Enabled: on, Private: s.Private})
		}
		return err
	})
}

func (a *admin) actOnSource(v *visit) error {
	if v.r.PathValue("action") == "preview" {
		return a.previewSource(v, v.r.PathValue("name"))
	}
	return a.turn(v, func(ctx context.Context, app, name string, on *bool) error {
		s, err := a.Sources.Get(app, name)
		if err == nil {
			_, _, err = a.Sources.Set(ctx, app, name, source.Change{Enabled: on, Private: s.Private})
		}
		return err
	})
}

// previewSource shows what the rows of a source's tables would become.
func (a *admin) previewSource(v *visit, name string) error {
	preview, err := a.Sources.Preview(v.r.Context(), v.person.App, name, source.Change{})
	if err != nil {
		return a.switchedTo(v, false, err)
	}
	shown := &sourcePreview{name, preview}
	if v.r.Header.Get("HX-Request") != "" {
		return a.part(v, "integrations", "previewed", shown)
	}
	return a.integrations(v, integrations{Preview: shown})
}
