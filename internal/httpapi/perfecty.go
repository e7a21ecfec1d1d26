package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/problem"
)

// The calls of Perfecty Push's browser SDK, so that a site changes one URL (docs/migrate/perfecty.md). A visitor is
// known by a UUID that its browser keeps: as there, who knows it may replace the subscription or end it. That is why
// these calls reach anonymous Web Push endpoints only.

// perfectyPage admits a page of the app in the path.
func (a *api) perfectyPage(c *call) (name string, err error) {
	h := c.w.Header()
	h.Add("Vary", "Origin")
	origin := c.r.Header.Get("Origin")
	name = c.r.PathValue("app")
	if err := notification.CheckName("app", name); err != nil {
		return "", err
	}
	if _, allowed := a.Apps.Anonymous(name, origin); allowed {
		h.Set("Access-Control-Allow-Origin", origin)
		return name, nil
	}
	app, err := a.Apps.App(name)
	if err != nil {
		return "", err
	}
	if origin == "" && c.r.Method == http.MethodGet && len(app.AnonymousOrigins) > 0 {
		return name, nil // a page of the server's own origin, behind the site's proxy: browsers say so only when they write
	}
	return "", problem.Forbidden.With("the page's origin is not one that the app takes registrations from; godwit app allow-anonymous names them")
}

// perfectyPreflight answers a browser that asks whether a page may call. The SDK sends a header of the site's choice
// along, which means nothing here.
func (a *api) perfectyPreflight(c *call) error {
	if _, err := a.perfectyPage(c); err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	if wanted := c.r.Header.Get("Access-Control-Request-Headers"); wanted != "" {
		h.Set("Access-Control-Allow-Headers", wanted)
	}
	h.Set("Access-Control-Max-Age", "600")
	return c.noContent()
}

// perfectyRegister is POST /compat/perfecty/{app}/v1/push/users.
func (a *api) perfectyRegister(c *call) error {
	app, err := a.perfectyPage(c)
	if err != nil {
		return err
	}
	if _, err := a.signup(c, app); err != nil {
		return err
	}
	body, err := readBody(c.r, nil, maxEndpointBody)
	if err != nil {
		return err
	}
	// Unknown members are let pass: versions of the SDK differ in what they send along.
	var in struct {
		User   json.RawMessage `json:"user"`
		UserID *string         `json:"user_id"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return problem.BadJSON.With("send an object with user, a push subscription")
	}
	var had audience.ID
	if in.UserID != nil && *in.UserID != "" {
		if had, err = audience.ParseID(*in.UserID); err != nil {
			return badField("user_id", "%q is not a UUID", clip(*in.UserID))
		}
	}
	id, created, err := a.Endpoints.RegisterVisitor(c.ctx, app, in.User, had)
	if err != nil {
		return err
	}
	return c.value(registeredStatus(created), map[string]string{"uuid": id.UUID()})
}

// perfectyVisitor finds the visitor in the path; found is false if there is none.
func (a *api) perfectyVisitor(c *call) (app string, e audience.Endpoint, found bool, err error) {
	if app, err = a.perfectyPage(c); err != nil {
		return app, e, false, err
	}
	id, err := audience.ParseID(c.r.PathValue("uuid"))
	if err != nil {
		return app, e, false, badField("uuid", "%q is not a UUID", clip(c.r.PathValue("uuid")))
	}
	e, found, err = a.Endpoints.FindVisitor(c.ctx, app, id)
	return app, e, found, err
}

// perfectyUser is GET /compat/perfecty/{app}/v1/push/users/{uuid}: an empty object makes the SDK register again.
func (a *api) perfectyUser(c *call) error {
	_, e, found, err := a.perfectyVisitor(c)
	if err != nil {
		return err
	}
	if !found || e.Status != audience.Active {
		return c.json(http.StatusOK, []byte("{}\n"))
	}
	return c.value(http.StatusOK, map[string]string{"uuid": e.ID.UUID()})
}

// perfectyUnregister is POST /compat/perfecty/{app}/v1/push/users/{uuid}/unregister. Who is not there has left already.
func (a *api) perfectyUnregister(c *call) error {
	app, e, found, err := a.perfectyVisitor(c)
	if err == nil && found {
		err = a.Endpoints.Delete(c.ctx, app, e.ID)
	}
	if err != nil && !errors.Is(err, audience.ErrNotFound) {
		return err
	}
	return c.json(http.StatusOK, slices.Clone([]byte(`{"result":true}`+"\n")))
}
