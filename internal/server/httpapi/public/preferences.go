package public

import (
	"context"
	"net/http"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/form"
	"godwit.dev/godwit/internal/server/problem"
)

// Preferences stores recipients' choices of the channels that may reach them.
type Preferences interface {
	Preferences(ctx context.Context, app string, recipients []string) (map[string]preference.Preferences, error)
	SetPreferences(ctx context.Context, app, recipient string, p *preference.Preferences) error
}

// preferring finds the recipient of a preferences call, if the caller may read that recipient's preferences or, if change is true, write
// them: a back end may for any recipient, a client for itself.
func (a *API) preferring(c *call.Call, change bool) (app, recipient string, err error) {
	a.allowOrigin(c)
	q, err := c.Params("token", "recipient")
	if err != nil {
		return "", "", err
	}
	recipient = c.R.PathValue("id")
	if err := notification.CheckName("recipient", recipient); err != nil {
		return "", "", err
	}
	h, err := a.holder(c, q)
	need := access.Read
	if change {
		need = access.Publish
	}
	switch {
	case err != nil:
		return "", "", err
	case h.Visitor(): // or the holder of a manage token, which is valid for one endpoint only
		return "", "", access.ErrUnauthenticated
	case h.BackEnd && !h.roles.Has(need):
		return "", "", call.NeedRole(need)
	case !h.BackEnd && h.Recipient != recipient:
		return "", "", problem.Forbidden.With("the token is for another recipient")
	}
	return h.App, recipient, nil
}

// GetPreferences is GET /v1/recipients/{id}/preferences. A recipient without stored preferences gets the defaults.
func (a *API) GetPreferences(c *call.Call) error {
	app, recipient, err := a.preferring(c, false)
	if err != nil {
		return err
	}
	said, err := a.Preferences.Preferences(c.Ctx, app, []string{recipient})
	if err != nil {
		return err
	}
	p := said[recipient]
	return c.Value(http.StatusOK, form.ViewPreferences(&p))
}

// PutPreferences is PUT /v1/recipients/{id}/preferences.
func (a *API) PutPreferences(c *call.Call) error {
	app, recipient, err := a.preferring(c, true)
	if err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, form.MaxPreferences)
	if err != nil {
		return err
	}
	p, err := form.Preferences(body)
	if err != nil {
		return err
	}
	if err := a.Preferences.SetPreferences(c.Ctx, app, recipient, &p); err != nil {
		return err
	}
	return c.Value(http.StatusOK, form.ViewPreferences(&p))
}

// DeletePreferences is DELETE /v1/recipients/{id}/preferences.
func (a *API) DeletePreferences(c *call.Call) error {
	app, recipient, err := a.preferring(c, true)
	if err != nil {
		return err
	}
	if err := a.Preferences.SetPreferences(c.Ctx, app, recipient, new(preference.Preferences)); err != nil {
		return err
	}
	return c.NoContent()
}

// PreferencesPreflight answers the preflight request (CORS) of a browser for the preferences routes.
func (a *API) PreferencesPreflight(c *call.Call) error {
	if a.allowOrigin(c) {
		h := c.W.Header()
		h.Set("Access-Control-Allow-Methods", "GET, PUT, DELETE")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
		h.Set("Access-Control-Max-Age", "600")
	}
	return c.NoContent()
}
