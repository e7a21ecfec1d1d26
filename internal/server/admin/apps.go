package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/admin/words"
)

// Apps manages the server's apps for operators, as /v1/apps does.
type Apps interface {
	Apps() []access.App
	Stored(name string) (access.App, error)
	CreateApp(ctx context.Context, name string, settings access.AppChange) error
	SetApp(ctx context.Context, name string, change access.AppChange) error
	DeleteApp(ctx context.Context, name string, tag *string) error
	// Operator returns the public id of the operator key if secret is that key.
	Operator(secret string) (id string, ok bool)
	// OperatorID returns the public id of the operator key; "" if there is none.
	OperatorID() string
}

// appsPath is the first page of operators.
const appsPath = "/ui/apps"

// operatorRoutes are the pages and actions of operators.
func (a *admin) operatorRoutes() map[string]route {
	if a.Apps == nil {
		return nil
	}
	const one = appsPath + "/{app}"
	return map[string]route{
		"GET " + appsPath:                   {signin.Operator, a.listApps, ""},
		"POST " + appsPath:                  {signin.Operator, a.createApp, "app.create"},
		"GET " + one:                        {signin.Operator, a.showApp, ""},
		"POST " + one:                       {signin.Operator, a.setApp, "app.set"},
		"POST " + one + "/delete":           {signin.Operator, a.deleteApp, "app.delete"},
		"POST " + one + "/keys":             {signin.Operator, a.createAppKey, "key.create"},
		"POST " + one + "/keys/{id}/delete": {signin.Operator, a.deleteAppKey, "key.delete"},
		"GET /ui/deeds":                     {signin.Operator, a.listAudit, ""},
	}
}

// appList is the page of all apps.
type appList struct {
	Items  []appLine
	Switch bool   // see maySwitch
	Name   string // typed before
	Wrong  string // with it
	Made   *madeKey
}

type appLine struct {
	access.App
	Path  string
	Keys  int64
	Trust string // how clients prove who they are, in words
}

// mostApps limits the apps listed.
const mostApps = 1000

func (a *admin) listApps(v *visit) error { return a.showApps(v, &appList{}) }

func (a *admin) showApps(v *visit, l *appList) error {
	all := a.Apps.Apps()
	l.Switch = a.maySwitch(v)
	for i := range all[:min(len(all), mostApps)] {
		l.Items = append(l.Items, appLine{App: all[i], Path: appPath(all[i].Name), Keys: int64(len(a.Access.Keys(all[i].Name))), Trust: trust(v.lang, &all[i])})
	}
	status := http.StatusOK
	if l.Wrong != "" {
		status, v.again = http.StatusUnprocessableEntity, true
	}
	a.answer(v, status, "apps", "page", frame{Title: v.t("Apps"), Here: "apps", Person: v.person, Version: a.Version, Content: l})
	return nil
}

func appPath(name string) string { return appsPath + "/" + url.PathEscape(name) }

// trust says how clients of an app prove who they are.
func trust(l *words.Language, app *access.App) string {
	ways := []string{}
	own := 0
	for _, k := range app.JWTKeys {
		if !k.Mints {
			own++
		}
	}
	if own > 0 {
		ways = append(ways, l.T("own keys"))
	}
	if app.JWKSURL != "" {
		ways = append(ways, "JWKS")
	}
	if app.IntrospectURL != "" {
		ways = append(ways, l.T("introspection"))
	}
	if len(ways) == 0 {
		return l.T("tokens that Godwit makes")
	}
	return strings.Join(ways, ", ")
}

// createApp makes an app and its first key, whose secret this answer alone contains.
func (a *admin) createApp(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	l := appList{Name: text(v.r.PostForm, "name")}
	v.made = l.Name
	ctx := v.r.Context()
	err := a.Apps.CreateApp(ctx, l.Name, access.AppChange{})
	if l.Wrong = wrong(v.lang, err); l.Wrong != "" {
		return a.showApps(v, &l)
	}
	if err != nil {
		return err
	}
	k, secret, err := a.Keys.CreateKey(ctx, l.Name, "first", access.Admin)
	if err != nil {
		return err
	}
	return a.showApps(v, &appList{Made: &madeKey{Name: l.Name, ID: k.ID, Roles: k.Roles.String(), Secret: secret}})
}

// wrong is what a person can mend; empty: nothing, or the error is another one.
func wrong(l *words.Language, err error) string {
	var field *notification.FieldError
	var tag *access.TagError
	switch {
	case errors.As(err, &field):
		return field.Error() + "."
	case errors.Is(err, access.ErrExists):
		return l.T("There is an app of this name.")
	case errors.As(err, &tag):
		return l.T("Another operator has changed it since you opened this page. Here is what it says now; what you typed is not kept.")
	}
	return ""
}

// appForm is the page of an app.
type appForm struct {
	access.App
	Path   string
	Tag    string
	Fields []appField
	Keys   keyPage
	Wrong  string
	Done   bool // it was changed just now
}

// appField is a setting of an app in its form: a text, or a list with an entry a line.
type appField struct {
	Name, Label, Value, Hint string
	List                     bool
}

// appSetting is a setting of an app, a text or a list, with its place in a change.
type appSetting struct {
	name, label, hint string
	text              func(*access.App, *access.AppChange) (string, **string)
	list              func(*access.App, *access.AppChange) ([]string, **[]string)
}

// get returns the setting: the entries of a list, or one text.
func (s *appSetting) get(app *access.App) []string {
	if s.list != nil {
		list, _ := s.list(app, new(access.AppChange))
		return list
	}
	text, _ := s.text(app, new(access.AppChange))
	return []string{text}
}

// change adds the setting to a change, in the form in which get returns it.
func (s *appSetting) change(c *access.AppChange, value []string) {
	if s.list != nil {
		_, into := s.list(new(access.App), c)
		list := append([]string{}, value...)
		*into = &list
		return
	}
	_, into := s.text(new(access.App), c)
	*into = &value[0]
}

// appFields are the settings that the form has.
var appFields = []appSetting{
	{name: "origins", label: "Origins of web pages that may connect", hint: "one a line, like https://example.org", list: func(a *access.App, c *access.AppChange) ([]string, **[]string) { return a.Origins, &c.Origins }},
	{name: "anonymous_origins", label: "Origins whose visitors may subscribe to push without a token", hint: "one a line", list: func(a *access.App, c *access.AppChange) ([]string, **[]string) {
		return a.AnonymousOrigins, &c.AnonymousOrigins
	}},
	{name: "jwks_url", label: "JWKS URL that verifies clients' tokens", text: func(a *access.App, c *access.AppChange) (string, **string) { return a.JWKSURL, &c.JWKSURL }},
	{name: "introspect_url", label: "Introspection URL that checks opaque tokens", text: func(a *access.App, c *access.AppChange) (string, **string) {
		return a.IntrospectURL, &c.IntrospectURL
	}},
	{name: "introspect_id", label: "User name for the introspection URL", hint: "its password is set over the API: introspect_secret", text: func(a *access.App, c *access.AppChange) (string, **string) {
		return a.IntrospectID, &c.IntrospectID
	}},
	{name: "issuer", label: "Issuer demanded of tokens", text: func(a *access.App, c *access.AppChange) (string, **string) { return a.Issuer, &c.Issuer }},
	{name: "audience", label: "Audience demanded of tokens", text: func(a *access.App, c *access.AppChange) (string, **string) { return a.Audience, &c.Audience }},
	{name: "certificate_topics", label: "Topics that a client certificate may subscribe to", hint: "one a line, like units.{sub}.>", list: func(a *access.App, c *access.AppChange) ([]string, **[]string) {
		return a.CertificateTopics, &c.CertificateTopics
	}},
	{name: "certificate_serve", label: "Subjects that a client certificate may serve", hint: "one a line", list: func(a *access.App, c *access.AppChange) ([]string, **[]string) {
		return a.CertificateServe, &c.CertificateServe
	}},
	{name: "certificate_publish", label: "Topics that a client certificate may publish to", hint: "one a line", list: func(a *access.App, c *access.AppChange) ([]string, **[]string) {
		return a.CertificatePublish, &c.CertificatePublish
	}},
	{name: "mqtt_keep", label: "Topics whose messages wait for clients of MQTT that are away", hint: "one a line, like jobs.>", list: func(a *access.App, c *access.AppChange) ([]string, **[]string) { return a.MQTTKeep, &c.MQTTKeep }},
}

// appNamed returns the app in the path.
func (a *admin) appNamed(v *visit) (access.App, error) {
	app, err := a.Apps.Stored(v.r.PathValue("app"))
	if errors.Is(err, access.ErrUnknownApp) {
		return app, mistaken(http.StatusNotFound, "There is no such app. Another operator may have deleted it.")
	}
	return app, err
}

func (a *admin) showApp(v *visit) error { return a.showAppForm(v, &appForm{}) }

func (a *admin) showAppForm(v *visit, f *appForm) error {
	app, err := a.appNamed(v)
	if err != nil {
		return err
	}
	f.App, f.Path, f.Tag = app, appPath(app.Name), app.Tag()
	for i := range appFields {
		field := &appFields[i]
		f.Fields = append(f.Fields, appField{Name: field.name, Label: v.t(field.label), Hint: v.t(field.hint), List: field.list != nil, Value: strings.Join(field.get(&app), "\n")})
	}
	a.fillAppKeys(app.Name, &f.Keys)
	status := http.StatusOK
	if f.Wrong != "" {
		status, v.again = http.StatusUnprocessableEntity, true
	}
	a.answer(v, status, "app", "page", frame{Title: app.Name, Here: "apps", Person: v.person, Version: a.Version, Content: f})
	return nil
}

// fillAppKeys lists an app's keys, the newest first.
func (a *admin) fillAppKeys(app string, p *keyPage) {
	keys := slices.Clone(a.Access.Keys(app))
	slices.Reverse(keys)
	p.More = len(keys) > mostKeys
	for _, k := range keys[:min(len(keys), mostKeys)] {
		p.Items = append(p.Items, keyLine{Key: k, Does: k.Roles.String()})
	}
}

// setApp changes an app's settings, if they are still those that the person saw.
func (a *admin) setApp(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	app, err := a.appNamed(v)
	if err != nil {
		return err
	}
	tag := text(v.r.PostForm, "revision")
	change := access.AppChange{Tag: &tag}
	for i := range appFields {
		field := &appFields[i]
		if !v.r.PostForm.Has(field.name) {
			continue
		}
		value := []string{text(v.r.PostForm, field.name)}
		if field.list != nil {
			value = strings.Fields(v.r.PostForm.Get(field.name))
		}
		field.change(&change, value)
	}
	err = a.Apps.SetApp(v.r.Context(), app.Name, change)
	f := appForm{Wrong: wrong(v.lang, err), Done: err == nil}
	if err != nil && f.Wrong == "" {
		return err
	}
	return a.showAppForm(v, &f)
}

// deleteApp deletes the app whose name the person typed.
func (a *admin) deleteApp(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	app, err := a.appNamed(v)
	if err != nil {
		return err
	}
	if text(v.r.PostForm, "name") != app.Name {
		return a.showAppForm(v, &appForm{Wrong: v.t("The app is not deleted: type its name.")})
	}
	tag := text(v.r.PostForm, "revision")
	if err := a.Apps.DeleteApp(v.r.Context(), app.Name, &tag); err != nil {
		if f := (appForm{Wrong: wrong(v.lang, err)}); f.Wrong != "" {
			return a.showAppForm(v, &f)
		}
		return err
	}
	a.leadTo(v, appsPath, http.StatusOK)
	return nil
}

// createAppKey makes a key of an app. This answer alone contains its secret.
func (a *admin) createAppKey(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	app, err := a.appNamed(v)
	if err != nil {
		return err
	}
	var k access.Key
	var secret string
	roles, err := access.ParseRoles(v.r.PostForm["role"])
	if err == nil {
		k, secret, err = a.Keys.CreateKey(v.r.Context(), app.Name, text(v.r.PostForm, "key"), roles)
	}
	if err != nil {
		if f := (appForm{Wrong: wrong(v.lang, err)}); f.Wrong != "" {
			return a.showAppForm(v, &f)
		}
		return err
	}
	v.made = k.ID
	return a.showAppForm(v, &appForm{Keys: keyPage{Made: &madeKey{Name: k.Name, ID: k.ID, Roles: roles.String(), Secret: secret}}})
}

func (a *admin) deleteAppKey(v *visit) error {
	app, err := a.appNamed(v)
	if err != nil {
		return err
	}
	id := v.r.PathValue("id")
	if notification.CheckName("id", id) != nil {
		return mistaken(http.StatusNotFound, noSuchKey)
	}
	err = a.Keys.DeleteKey(v.r.Context(), app.Name, id)
	if errors.Is(err, access.ErrUnknownKey) {
		return mistaken(http.StatusNotFound, noSuchKey)
	}
	if err != nil {
		return err
	}
	a.leadTo(v, appPath(app.Name), http.StatusOK)
	return nil
}

// operatorSignIn signs in a person with the operator key. It reports whether the key has the form of one.
func (a *admin) operatorSignIn(w http.ResponseWriter, r *http.Request, secret string) bool {
	if a.Apps == nil || !access.IsOperatorKey(secret) {
		return false
	}
	id, ok := a.Apps.Operator(secret)
	if !ok {
		a.Log.InfoContext(r.Context(), "sign-in refused: no such operator key", "address", address(r))
		a.door(w, r, http.StatusForbidden, "This is not the operator key of this server, or not any more.")
		return true
	}
	a.letIn(w, r, person{Key: access.OperatorName(id), Role: signin.Operator})
	return true
}

// operates reports whether an operator's key is the present one.
func (a *admin) operates(who person) bool {
	return a.Apps != nil && who.Key == access.OperatorName(a.Apps.OperatorID())
}

// noteOperator records an action of an operator: about an app in its log, of apps themselves in that of the server.
func (a *admin) noteOperator(r *http.Request, who person, action, object string, outcome audit.Outcome) {
	e := audit.Entry{By: who.Name(), Way: audit.Page, Address: address(r), Action: action, Object: object, Outcome: outcome}
	if app := r.PathValue("app"); strings.HasPrefix(action, "key.") {
		e.App, e.Object = app, cmp.Or(r.PathValue("id"), object)
	}
	a.Audit.Note(r.Context(), e)
}
