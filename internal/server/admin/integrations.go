package admin

import (
	"errors"
	"net/http"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/resource"
)

// integrations is the page of the places to which events are sent and from which notifications are read.
type integrations struct {
	Groups  []integrationGroup
	Tested  *hookTest
	Preview *resource.Preview
}

type integrationGroup struct {
	ID, Title, Empty string
	One              string // in words: hook
	Docs             string // how to set one up
	Items            []resource.Line
}

// hookTest is the result of a test.
type hookTest struct{ Name, Outcome, Detail string }

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
		{ID: "hooks", One: "hook", Title: v.t("Hooks"), Docs: "/docs/guides/hooks", Empty: v.t("No program of yours is told of events.")},
		{ID: "sinks", One: "sink", Title: v.t("Sinks"), Docs: "/docs/guides/clickhouse", Empty: v.t("Events go to no database of yours.")},
		{ID: "sources", One: "source", Title: v.t("Sources"), Docs: "/docs/guides/sources", Empty: v.t("No notifications are taken from elsewhere.")},
	}
	for i := range hooks {
		page.Groups[0].add(resource.OfHook(&hooks[i]))
	}
	for i := range sinks {
		page.Groups[1].add(resource.OfSink(&sinks[i]))
	}
	for _, s := range a.Sources.List(app) {
		page.Groups[2].add(resource.OfSource(&s))
	}
	return a.show(v, "integrations", v.t("Hooks, sinks, sources"), "integrations", page)
}

func (g *integrationGroup) add(one *resource.Line) {
	if len(g.Items) < mostListed {
		g.Items = append(g.Items, *one)
	}
}

// place returns the settings of the visitor's app.
func (a *admin) place(v *visit) resource.Place {
	return resource.Place{Parts: resource.Parts{Hooks: a.Hooks, Sinks: a.Sinks, Sources: a.Sources, Named: a.Settings}, App: v.person.App}
}

// turn pauses or resumes a hook, sink or source.
func (a *admin) turn(v *visit, kind string) error {
	on, ok := map[string]bool{"pause": false, "resume": true}[v.r.PathValue("action")]
	if !ok {
		return errNoAction
	}
	return a.switchedTo(v, on, a.place(v).Switch(v.r.Context(), kind, v.r.PathValue("name"), &on))
}

var errNoAction = mistaken(http.StatusNotFound, "There is nothing of this name to be done.")

// switchedTo redirects to the page after a switch, or says that there is nothing to switch.
func (a *admin) switchedTo(v *visit, on bool, err error) error {
	var field *notification.FieldError
	switch {
	case resource.Missing(err):
		return mistaken(http.StatusNotFound, "There is none of this name.")
	case errors.As(err, &field):
		return mistaken(http.StatusUnprocessableEntity, "%s", wholeProblem(v.lang, field))
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
	switch v.r.PathValue("action") {
	case "test":
		return a.testHook(v, name)
	case "replay":
		if err := parseForm(v.r); err != nil {
			return err
		}
		return a.switchedTo(v, true, a.place(v).Again(v.r.Context(), name, text(v.r.PostForm, "since")))
	}
	return a.turn(v, "hooks")
}

// testHook posts a test event and shows its outcome.
func (a *admin) testHook(v *visit, name string) error {
	err := a.Hooks.Test(v.r.Context(), v.person.App, name)
	if resource.Missing(err) {
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

func (a *admin) actOnSink(v *visit) error { return a.turn(v, "sinks") }

func (a *admin) actOnSource(v *visit) error {
	switch name := v.r.PathValue("name"); v.r.PathValue("action") {
	case "preview":
		return a.previewSource(v, name)
	case "resync":
		return a.switchedTo(v, true, a.place(v).Resync(v.r.Context(), name))
	case "empty-quarantine":
		return a.emptyQuarantine(v, name)
	}
	return a.turn(v, "sources")
}

// previewSource shows what the rows of a source's tables would become.
func (a *admin) previewSource(v *visit, name string) error {
	shown, err := a.place(v).Preview(v.r.Context(), name)
	if err != nil {
		return a.switchedTo(v, false, err)
	}
	if v.r.Header.Get("HX-Request") != "" {
		return a.part(v, "integrations", "previewed", shown)
	}
	return a.integrations(v, integrations{Preview: shown})
}
