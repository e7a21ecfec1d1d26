package public

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/form"
	"godwit.dev/godwit/internal/server/problem"
)

// The calls of Perfecty Push's browser SDK, so that a site changes one URL (docs/migrate/perfecty.md). A UUID that the
// browser keeps identifies a visitor. As in Perfecty, anyone who knows the UUID may replace the subscription or end it.
// So these calls reach anonymous Web Push endpoints only.

// perfectyPage admits a page of the app in the path.
func (a *API) perfectyPage(c *call.Call) (name string, err error) {
	h := c.W.Header()
	h.Add("Vary", "Origin")
	origin := c.R.Header.Get("Origin")
	name = c.R.PathValue("app")
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
	if origin == "" && c.R.Method == http.MethodGet && len(app.AnonymousOrigins) > 0 {
		return name, nil // a page of the server's own origin, behind the site's proxy: browsers send Origin only when such a page writes
	}
	return "", problem.Forbidden.With("the page's origin is not one that the app takes registrations from; godwit app allow-anonymous names them")
}

// PerfectyPreflight answers a browser's preflight request (CORS). The SDK adds a header that the site chooses; it has no meaning here.
func (a *API) PerfectyPreflight(c *call.Call) error {
	if _, err := a.perfectyPage(c); err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	if wanted := c.R.Header.Get("Access-Control-Request-Headers"); wanted != "" {
		h.Set("Access-Control-Allow-Headers", wanted)
	}
	h.Set("Access-Control-Max-Age", "600")
	return c.NoContent()
}

// PerfectyRegister is POST /compat/perfecty/{app}/v1/push/users.
func (a *API) PerfectyRegister(c *call.Call) error {
	app, err := a.perfectyPage(c)
	if err != nil {
		return err
	}
	if _, err := a.signup(c, app); err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, form.MaxEndpoint)
	if err != nil {
		return err
	}
	// Unknown members are ignored: versions of the SDK send different ones.
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
			return notification.BadField("user_id", "%q is not a UUID", notification.Clip(*in.UserID))
		}
	}
	id, created, err := a.Endpoints.RegisterVisitor(c.Ctx, app, in.User, had)
	if err != nil {
		return err
	}
	return c.Value(registeredStatus(created), map[string]string{"uuid": id.UUID()})
}

// perfectyVisitor finds the visitor in the path; found is false if there is none.
func (a *API) perfectyVisitor(c *call.Call) (app string, e audience.Endpoint, found bool, err error) {
	if app, err = a.perfectyPage(c); err != nil {
		return app, e, false, err
	}
	id, err := audience.ParseID(c.R.PathValue("uuid"))
	if err != nil {
		return app, e, false, notification.BadField("uuid", "%q is not a UUID", notification.Clip(c.R.PathValue("uuid")))
	}
	e, found, err = a.Endpoints.FindVisitor(c.Ctx, app, id)
	return app, e, found, err
}

// PerfectyUser is GET /compat/perfecty/{app}/v1/push/users/{uuid}: an empty object makes the SDK register again.
func (a *API) PerfectyUser(c *call.Call) error {
	_, e, found, err := a.perfectyVisitor(c)
	if err != nil {
		return err
	}
	if !found || e.Status != audience.Active {
		return c.JSON(http.StatusOK, []byte("{}\n"))
	}
	return c.Value(http.StatusOK, map[string]string{"uuid": e.ID.UUID()})
}

// PerfectyUnregister is POST /compat/perfecty/{app}/v1/push/users/{uuid}/unregister. It also succeeds for an unknown visitor.
func (a *API) PerfectyUnregister(c *call.Call) error {
	app, e, found, err := a.perfectyVisitor(c)
	if err == nil && found {
		err = a.Endpoints.Delete(c.Ctx, app, e.ID)
	}
	if err != nil && !errors.Is(err, audience.ErrNotFound) {
		return err
	}
	return c.JSON(http.StatusOK, slices.Clone([]byte(`{"result":true}`+"\n")))
}
