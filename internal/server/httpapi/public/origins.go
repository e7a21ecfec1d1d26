package public

import "godwit.dev/godwit/internal/server/httpapi/call"

// allowOrigin lets pages read the answer if the app allows them to connect. No other route allows that: keys do not belong in pages.
func (a *API) allowOrigin(c *call.Call) bool {
	h := c.W.Header()
	h.Add("Vary", "Origin")
	origin := c.R.Header.Get("Origin")
	if origin == "" || !a.Access.Origin(c.Query().Get("app"), origin, c.R.Host) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	return true
}

// allowPage lets pages read the answer if the app accepts clients or registrations from them.
func (a *API) allowPage(c *call.Call) bool {
	if a.allowOrigin(c) {
		return true
	}
	origin := c.R.Header.Get("Origin")
	if _, allowed := a.Apps.Anonymous(c.Query().Get("app"), origin); !allowed {
		return false
	}
	c.W.Header().Set("Access-Control-Allow-Origin", origin)
	return true
}

// EndpointsPreflight answers the preflight request (CORS) of a browser for the endpoints routes.
func (a *API) EndpointsPreflight(c *call.Call) error {
	if a.allowPage(c) {
		h := c.W.Header()
		h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
		h.Set("Access-Control-Max-Age", "600")
	}
	return c.NoContent()
}
