package attack

import (
	"net/http"

	"godwit.dev/godwit/internal/testkit/narrow"
)

// smallBuffers makes connections whose kernel buffer takes little, so that the server's own queue fills soon.
func smallBuffers() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: narrow.Dialer().DialContext}}
}
