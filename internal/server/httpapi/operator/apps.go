package operator

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// Apps manages the apps of the server, and its operator key.
type Apps interface {
	Apps() []access.App
	// Stored returns an app, also one that is not served yet.
	Stored(name string) (access.App, error)
	// CreateApp fails with access.ErrExists if there is an app of this name.
	CreateApp(ctx context.Context, name string, settings access.AppChange) error
	SetApp(ctx context.Context, name string, change access.AppChange) error
	// DeleteApp fails with *access.TagError if the app does not have the tag; nil: any will do.
	DeleteApp(ctx context.Context, name string, tag *string) error
	// RotateOperator replaces the operator key with the id former, and returns the new one's text.
	RotateOperator(ctx context.Context, former string) (access.OperatorKey, string, error)
}

const (
	maxAppBody     = 128 << 10 // in bytes; 16 keys in PEM have 30,000
	maxAppPatterns = 256       // the registry's own limits are lower
)

type jwtKeyJSON struct {
	ID        string `json:"kid"`
	Algorithm string `json:"alg"`
	Mints     bool   `json:"mints"`
}

// appJSON is an app in answers. It contains no secret.
type appJSON struct {
	Name              string       `json:"name"`
	CreatedAt         call.Moment  `json:"created_at"`
	Revision          string       `json:"revision"`
	Keys              int          `json:"keys"`
	JWTKeys           []jwtKeyJSON `json:"jwt_keys"`
	JWKSURL           *string      `json:"jwks_url"`
	IntrospectURL     *string      `json:"introspect_url"`
	IntrospectID      *string      `json:"introspect_id"`
	Credentials       []string     `json:"credentials"`
	Issuer            *string      `json:"issuer"`
	Audience          *string      `json:"audience"`
	Origins           []string     `json:"origins"`
	AnonymousOrigins  []string     `json:"anonymous_origins"`
	CertificateTopics []string     `json:"certificate_topics"`
	CertificateServe  []string     `json:"certificate_serve"`
	MQTTKeep          []string     `json:"mqtt_keep"`

	CertificatePublish []string `json:"certificate_publish"`
	// Key is the app's first key with its secret, shown once.
	Key       *keyJSON `json:"key,omitempty"`
	Duplicate *bool    `json:"duplicate,omitempty"`
}

func (a *API) viewApp(app *access.App) appJSON {
	v := appJSON{
		Name: app.Name, CreatedAt: call.Moment(app.CreatedAt), Revision: app.Tag(), Keys: len(a.Keys.Keys(app.Name)),
		JWTKeys: []jwtKeyJSON{}, JWKSURL: call.OrNull(app.JWKSURL), IntrospectURL: call.OrNull(app.IntrospectURL), IntrospectID: call.OrNull(app.IntrospectID),
		Credentials: []string{}, Issuer: call.OrNull(app.Issuer), Audience: call.OrNull(app.Audience), Origins: listed(app.Origins), AnonymousOrigins: listed(app.AnonymousOrigins),
		CertificateTopics: listed(app.CertificateTopics), CertificateServe: listed(app.CertificateServe), CertificatePublish: listed(app.CertificatePublish), MQTTKeep: listed(app.MQTTKeep),
	}
	for _, k := range app.JWTKeys {
		v.JWTKeys = append(v.JWTKeys, jwtKeyJSON{k.ID, k.Algorithm, k.Mints})
	}
	if app.IntrospectSecret != "" {
		v.Credentials = append(v.Credentials, "introspect_secret")
	}
	return v
}

// listed returns a list that is never null in JSON.
func listed(list []string) []string { return append([]string{}, list...) }

// appRoutes returns the calls below /v1/apps and those about the operator key.
func (a *API) appRoutes() []call.Route {
	const server = call.ServerWide
	return []call.Route{
		{Pattern: "GET /v1/apps", Operator: server, Serve: a.listApps},
		{Pattern: "POST /v1/apps", Operator: server, Action: "app.create", Serve: a.createApp},
		{Pattern: "GET /v1/apps/{app}", Operator: server, Serve: a.getApp},
		{Pattern: "PATCH /v1/apps/{app}", Operator: server, Action: "app.set", Serve: a.setApp},
		{Pattern: "DELETE /v1/apps/{app}", Operator: server, Action: "app.delete", Serve: a.deleteApp},
		{Pattern: "POST /v1/operator/rotate", Operator: server, Action: "operator.rotate", Serve: a.rotateOperator},
	}
}

func (a *API) listApps(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	apps := a.Apps.Apps()
	l := call.NewList[appJSON](len(apps), "")
	for i := range apps {
		l.Items = append(l.Items, a.viewApp(&apps[i]))
	}
	return c.Value(http.StatusOK, l)
}

func (a *API) getApp(c *call.Call) error {
	name, err := appNamed(c)
	if err != nil {
		return err
	}
	return a.showApp(c, http.StatusOK, name, nil)
}

// appNamed returns the name in the path.
func appNamed(c *call.Call) (string, error) {
	if _, err := c.Params(); err != nil {
		return "", err
	}
	name := c.R.PathValue("app")
	return name, notification.CheckName("app", name)
}

// showApp answers with an app; change adds to it.
func (a *API) showApp(c *call.Call, status int, name string, change func(*appJSON)) error {
	app, err := a.Apps.Stored(name)
	if err != nil {
		return err
	}
	v := a.viewApp(&app)
	if change != nil {
		change(&v)
	}
	c.W.Header().Set("ETag", `"`+v.Revision+`"`)
	return c.Value(status, v)
}

// createApp makes an app and its first key, whose secret this answer alone contains.
func (a *API) createApp(c *call.Call) error {
	idem, err := call.IdempotencyKey(c.R.Header)
	if err != nil {
		return err
	}
	if _, err := c.Params(); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxAppBody)
	if err != nil {
		return err
	}
	name, settings, err := decodeApp(body, true)
	if err != nil {
		return err
	}
	if idem == "" {
		return a.newApp(c, name, settings, nil)
	}
	entry, done := a.created.enter("", idem, sha256.Sum256(body), time.Now())
	defer done()
	switch {
	case entry.other:
		return problem.IdempotencyMismatch.New()
	case *entry.id != "":
		duplicate := true
		return a.showApp(c, http.StatusOK, name, func(v *appJSON) { v.Duplicate = &duplicate })
	}
	return a.newApp(c, name, settings, entry.id)
}

// newApp creates an app and stores its name in note, for retries.
func (a *API) newApp(c *call.Call, name string, settings access.AppChange, note *string) error {
	c.Made = name
	if err := a.Apps.CreateApp(c.Ctx, name, settings); err != nil {
		return err
	}
	k, secret, err := a.Keys.CreateKey(c.Ctx, name, "first", access.Admin)
	if err != nil {
		return err
	}
	if note != nil {
		*note = name
	}
	a.Log.InfoContext(c.Ctx, "app made over the API", "app", name, "key", k.ID, "by", c.Key.Key)
	key, duplicate := viewKey(k), false
	key.Key = &secret
	return a.showApp(c, http.StatusCreated, name, func(v *appJSON) { v.Key, v.Duplicate = &key, &duplicate })
}

// setApp changes the members that the body has; null removes one.
func (a *API) setApp(c *call.Call) error {
	name, err := appNamed(c)
	if err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxAppBody)
	if err != nil {
		return err
	}
	_, change, err := decodeApp(body, false)
	if err != nil {
		return err
	}
	if change.Tag, err = c.IfMatch(); err != nil {
		return err
	}
	if err := a.Apps.SetApp(c.Ctx, name, change); err != nil {
		return err
	}
	a.Log.InfoContext(c.Ctx, "app changed over the API", "app", name, "by", c.Key.Key)
	return a.showApp(c, http.StatusOK, name, nil)
}

func (a *API) deleteApp(c *call.Call) error {
	name, err := appNamed(c)
	if err != nil {
		return err
	}
	tag, err := c.IfMatch()
	if err != nil {
		return err
	}
	if err := a.Apps.DeleteApp(c.Ctx, name, tag); err != nil {
		return err
	}
	a.Log.InfoContext(c.Ctx, "app deleted over the API", "app", name, "by", c.Key.Key)
	return c.NoContent()
}

// decodeApp reads an app's settings; the name only of a new app.
func decodeApp(body []byte, isNew bool) (name string, change access.AppChange, err error) {
	members := call.Fields{
		"jwks_url": orEmpty(&change.JWKSURL), "introspect_url": orEmpty(&change.IntrospectURL), "introspect_id": orEmpty(&change.IntrospectID),
		"issuer": orEmpty(&change.Issuer), "audience": orEmpty(&change.Audience),
		"origins": listOrNone(&change.Origins), "anonymous_origins": listOrNone(&change.AnonymousOrigins),
		"certificate_topics": listOrNone(&change.CertificateTopics), "certificate_serve": listOrNone(&change.CertificateServe), "certificate_publish": listOrNone(&change.CertificatePublish), "mqtt_keep": listOrNone(&change.MQTTKeep),
		"introspect_secret": call.Reader(func(field string, raw json.RawMessage) error {
			var text *string
			err := orEmpty(&text)(field, raw)
			if err == nil {
				secret := access.Secret(*text)
				change.IntrospectSecret = &secret
			}
			return err
		}),
		"jwt_keys": call.Reader(func(field string, raw json.RawMessage) error {
			var texts *[]string
			if err := listOrNone(&texts)(field, raw); err != nil {
				return err
			}
			keys := []access.JWTKey{}
			for _, text := range *texts {
				more, err := access.ParseJWTKeys([]byte(text))
				if err != nil {
					return notification.BadField(field, "has a key that cannot be read: %s", err)
				}
				keys = append(keys, more...)
			}
			change.JWTKeys = &keys
			return nil
		}),
	}
	if isNew {
		members["name"] = call.Text(func(field, text string) error {
			name = text
			return notification.CheckName(field, text)
		})
	} else {
		members["new_token_key"] = &change.NewMintKey
	}
	if err = members.Decode(body); err == nil && isNew && name == "" {
		err = notification.BadField("name", "is missing")
	}
	return name, change, err
}

// orEmpty reads a string; null is the empty one.
func orEmpty(into **string) call.Reader {
	return func(field string, raw json.RawMessage) error {
		*into = new(string)
		if string(raw) == "null" {
			return nil
		}
		return call.ReadValue(field, raw, *into)
	}
}

// listOrNone reads a list of strings; null is the empty one.
func listOrNone(into **[]string) call.Reader {
	return func(field string, raw json.RawMessage) error {
		*into = &[]string{}
		if string(raw) == "null" {
			return nil
		}
		return call.Texts(*into, maxAppPatterns, nil)(field, raw)
	}
}

// operatorJSON is a new operator key, shown once.
type operatorJSON struct {
	ID        string      `json:"id"`
	CreatedAt call.Moment `json:"created_at"`
	Key       string      `json:"key"`
	Saved     bool        `json:"saved"` // in the data folder of the node that answered
}

// rotateOperator replaces the operator key with which it was called.
func (a *API) rotateOperator(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxKeyBody)
	if err == nil && len(body) > 0 {
		err = call.Fields{}.Decode(body)
	}
	if err != nil {
		return err
	}
	k, text, err := a.Apps.RotateOperator(c.Ctx, strings.TrimPrefix(c.Key.Key, access.OperatorName("")))
	if err != nil {
		return err
	}
	v := operatorJSON{ID: k.ID, CreatedAt: call.Moment(k.CreatedAt), Key: text}
	if a.OperatorFile != "" {
		if err := access.WriteOperatorKey(a.OperatorFile, text); err != nil { // the answer has the key all the same
			a.Log.ErrorContext(c.Ctx, "the new operator key could not be written", "error", err)
		} else {
			v.Saved = true
		}
	}
	return c.Value(http.StatusOK, v)
}
