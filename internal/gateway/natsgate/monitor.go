package natsgate

import (
	"net/http"
	"net/url"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// pages are the calls of NATS servers that monitoring tools read. A key sees its own app.
func pages(b *bus.Bus) []call.Route {
	page := func(pattern string, read func(app string, q url.Values) ([]byte, error), params ...string) call.Route {
		return call.Route{Pattern: "GET " + pattern, Role: access.Read, Basic: true, Serve: func(c *call.Call) error {
			q, err := c.Params(params...)
			if err != nil {
				return err
			}
			body, err := read(c.Key.App, q)
			if err != nil {
				return err
			}
			return c.JSON(http.StatusOK, body)
		}}
	}
	return []call.Route{
		page("/varz", func(string, url.Values) ([]byte, error) { return b.Varz() }),
		page("/connz", b.Connz, "sort", "state", "offset", "limit", "cid", "subs", "auth"),
		page("/subsz", b.Subsz, "test", "offset", "limit", "subs"),
	}
}
