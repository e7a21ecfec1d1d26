package admin

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/admin/resource"
	"godwit.dev/godwit/internal/server/admin/words"
)

// ownPath is the page of the app's own settings, for its admins.
const ownPath = "/ui/app"

// ownRoutes are the pages about the app itself.
func (a *admin) ownRoutes() map[string]route {
	return map[string]route{
		"GET " + ownPath:        {signin.Admin, a.showOwn, ""},
		"POST " + ownPath:       {signin.Admin, a.setOwn, "app.set"},
		"GET /ui/sign-in-rules": {signin.Admin, a.showRules, ""},
	}
}

// mostOwn limits the entries of an app's lists; the registry's own limits are lower.
const mostOwn = 256

// ownInputs are the settings of an app that have a form: those of the page for operators, and the secrets.
func ownInputs() (inputs []resource.Input) {
	for i := range appFields {
		f := &appFields[i]
		in := resource.Input{Field: setting.Field{Name: f.name, Most: mostOwn}, Word: f.label, Hint: upperFirst(f.hint)}
		if f.list != nil {
			in.Type = setting.List
		}
		if f.name == "introspect_id" {
			in.Hint = "With the password below."
		}
		inputs = append(inputs, in)
		if f.name == "introspect_id" {
			inputs = append(inputs, resource.Input{Field: setting.Field{Name: "introspect_secret", Secret: true}, Word: "Password for the introspection URL", Hint: "A change of the URL or the user name needs it again."})
		}
	}
	return append(inputs,
		resource.Input{Field: setting.Field{Name: "jwt_keys", Type: setting.Text, Secret: true, Lines: true}, Word: "Keys that verify clients’ tokens", Hint: "PEM, a JWK or a JWK set. They replace the present ones."},
		resource.Input{Field: setting.Field{Name: "new_token_key", Type: setting.Bool}, Word: "Make a new key for the tokens that Godwit signs", Hint: "Those that were made before end at once."},
	)
}

// ownResource gives the page of an app's settings what it has in common with others.
var ownResource = resource.Kind{Name: "app", Here: "app"}

func (a *admin) showOwn(v *visit) error {
	return a.own(v, resourceForm{saved: v.r.URL.Query().Has("saved")})
}

// own shows the settings of the app.
func (a *admin) own(v *visit, f resourceForm) error {
	app, err := a.Settings.App(v.person.App)
	if err != nil {
		return err
	}
	s := resource.Stored{Name: app.Name, Values: setting.Values{}, Revision: app.Tag()}
	for i := range appFields {
		field := &appFields[i]
		if value := field.get(&app); field.list != nil {
			s.Values[field.name] = setting.JSON(append([]string{}, value...))
		} else {
			s.Values[field.name] = setting.JSON(value[0])
		}
	}
	if app.IntrospectSecret != "" {
		s.Secrets = append(s.Secrets, "introspect_secret")
	}
	if slices.ContainsFunc(app.JWTKeys, func(k access.JWTKey) bool { return !k.Mints }) {
		s.Secrets = append(s.Secrets, "jwt_keys")
	}
	p := &resourcePage{Title: v.t("This app"), Kind: app.Name, Action: ownPath, Save: v.t("Save"), Docs: "/docs/guides/authentication"}
	inputs := ownInputs()
	p.fill(v.lang, &ownResource, inputs, &s, f)
	p.Call = strings.Replace(resource.Call(http.MethodPatch, "/v1/apps/"+app.Name, s.Revision, "", inputs, asTyped(inputs, &s, f)), "Bearer KEY", "Bearer OPERATOR_KEY", 1)
	return a.showForm(v, p, &ownResource, f.status)
}

// setOwn changes the settings of the app, if they are still those that the person saw.
func (a *admin) setOwn(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	app, err := a.Settings.App(v.person.App)
	if err != nil {
		return err
	}
	v.made = app.Name
	stale := resourceForm{status: http.StatusConflict, typed: v.r.PostForm, whole: v.t(changedMeanwhile)}
	tag := v.r.PostForm.Get("revision")
	if tag != app.Tag() {
		return a.own(v, stale)
	}
	inputs := ownInputs()
	values, problems := resource.Read(inputs, v.r.PostForm)
	change := ownChange(v.lang, &app, values, problems)
	if len(problems) > 0 {
		return a.own(v, resourceForm{status: http.StatusUnprocessableEntity, typed: v.r.PostForm, problems: sentences(v.lang, problems)})
	}
	change.Tag = &tag // somebody may be quicker still
	err = a.Settings.SetApp(v.r.Context(), app.Name, change)
	if _, changed := errors.AsType[*access.TagError](err); changed {
		return a.own(v, stale)
	}
	if field, bad := errors.AsType[*notification.FieldError](err); bad {
		named := *field
		named.Field = ownField(field, values)
		f, _ := refusedBy(v.lang, &ownResource, inputs, v.r.PostForm, false, &named)
		return a.own(v, *f)
	}
	if err != nil {
		return err
	}
	a.Log.InfoContext(v.r.Context(), "app set on the web page", "app", app.Name, "by", v.person.Name())
	a.leadTo(v, ownPath+"?saved=1", http.StatusOK)
	return nil
}

// ownChange returns the change that values ask for; it adds to problems what a person must mend.
func ownChange(l *words.Language, app *access.App, values setting.Values, problems map[string]string) access.AppChange {
	change := access.AppChange{NewMintKey: values.Bool("new_token_key")}
	for i := range appFields {
		field := &appFields[i]
		value := []string{values.Text(field.name)}
		if field.list != nil {
			value = values.List(field.name)
		}
		field.change(&change, value)
	}
	if _, given := values["introspect_secret"]; given {
		secret := access.Secret(values.Text("introspect_secret"))
		change.IntrospectSecret = &secret
	} else if app.IntrospectSecret != "" && (*change.IntrospectURL != app.IntrospectURL || *change.IntrospectID != app.IntrospectID) {
		problems["introspect_secret"] = l.T("It was stored for another URL or user name. Give it again, or do without it.")
	}
	if _, given := values["jwt_keys"]; given {
		keys := []access.JWTKey{}
		if text := values.Text("jwt_keys"); text != "" {
			var err error
			if keys, err = access.ParseJWTKeys([]byte(text)); err != nil {
				problems["jwt_keys"] = l.T("It has a key that cannot be read: %s.", err)
			}
		}
		change.JWTKeys = &keys
	}
	return change
}

// ownField returns the field of the form that an error of an app's settings is about.
func ownField(e *notification.FieldError, values setting.Values) string {
	switch e.Field {
	case "jwt_key":
		return "jwt_keys"
	case "origin":
		if slices.ContainsFunc(values.List("anonymous_origins"), func(o string) bool { return strings.Contains(e.Problem, o) }) {
			return "anonymous_origins"
		}
		return "origins"
	}
	return e.Field
}

// signInRules is the page of the rules by which people of a provider sign in to the app.
type signInRules struct {
	Provider string // its host; empty: people sign in with keys alone
	Items    []signin.Rule
	Setting  string // the setting with one rule more
}

// showRules shows the rules. They are a setting of the server.
func (a *admin) showRules(v *visit) error {
	p := signInRules{}
	if a.Provider != nil {
		p.Provider, p.Items = a.Provider.Host(), a.Provider.RulesOf(v.person.App)
	}
	rules := make([]string, 0, len(p.Items)+1)
	for _, r := range p.Items {
		rules = append(rules, r.String())
	}
	rules = append(rules, "view "+v.person.App+" groups=support")
	p.Setting = "oidc_allow = \"" + strings.Join(rules, "; ") + "\""
	if p.Provider == "" {
		p.Setting = "oidc_issuer = \"https://login.example.org\"\noidc_client_id = \"godwit\"\n" + p.Setting
	}
	return a.show(v, "rules", v.t("Sign-in rules"), "sign-in-rules", p)
}
