package httpapi

import (
	"net/http"

	contract "godwit.dev/godwit/api"
)

const homePage = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Godwit</title><meta name="viewport" content="width=device-width"></head>
<body>
<h1>Godwit</h1>
<p>This is a notification server. A back end hands it a notification once; it gets it to the recipient, keeps trying
until it is acknowledged or expired, and says at any time what became of it.</p>
<ul>
<li><a href="/openapi.yaml">The HTTP API</a> (OpenAPI)</li>
<li><a href="/healthz">Is it alive?</a> <a href="/readyz">Can it store?</a></li>
<li><a href="/metrics">Figures for Prometheus</a></li>
</ul>
<p>Publish something:</p>
<pre>curl -H "Authorization: Bearer $GODWIT_API_KEY" -d '{"to":"driver-42","title":"Hello"}' "$GODWIT_URL/v1/notifications"</pre>
</body>
</html>
`

// home is the plain page at /.
func (a *api) home(c *call) error {
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	return c.send(http.StatusOK, []byte(homePage))
}

// openapi serves the description of this API.
func (a *api) openapi(c *call) error {
	c.w.Header().Set("Content-Type", "application/yaml")
	return c.send(http.StatusOK, contract.OpenAPI())
}
