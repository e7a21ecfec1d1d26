package attack

import (
	"net/http"

	"godwit.dev/godwit/internal/testkit/narrow"
)

// smallBuffers returns a client whose connections have small kernel buffers, so that the server's own queue fills soon.
func smallBuffers() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: narrow.Dialer().DialContext}}
}
