// Package call is a request on its way through the API: what every route needs to read it strictly and to answer it.
package call

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/access"
)

// Call is one request on its way through a handler.
type Call struct {
	W   http.ResponseWriter
	R   *http.Request
	Ctx context.Context  // of the request, with a deadline unless the route streams
	Key access.Principal // of routes with a role

	Made string // name of a thing that the call has made, if the path does not contain it

	Status int  // of the answer; 0: none yet
	Sized  bool // the answer has a Content-Length, so that the connection can be used again before the handler has returned
}

// Patience bounds how long an ordinary request may take; a publish that has not been stored by then gets
// 503 and may be retried with the same id. It is shorter than the connection's write timeout.
const Patience = 15 * time.Second

// JSONType is the Content-Type of most answers.
const JSONType = "application/json"

// Values of the header Content-Type. They are shared slices: net/http only reads them, and this saves an allocation on
// every answer.
var (
	valJSON = []string{JSONType}
	// NDJSON is of answers in lines.
	NDJSON = []string{"application/x-ndjson"}
)

// Query parses the query; parameters that cannot be parsed are dropped as url.ParseQuery does.
func (c *Call) Query() url.Values { return c.R.URL.Query() }

// JSON answers with a body that is JSON already.
func (c *Call) JSON(status int, body []byte) error {
	c.W.Header()["Content-Type"] = valJSON
	return c.Send(status, body)
}

// Send answers. A failed write means that the client is gone, which is no error of the server.
func (c *Call) Send(status int, body []byte) error {
	c.Status = status
	if c.Sized {
		c.W.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	c.W.WriteHeader(status)
	_, _ = c.W.Write(body)
	return nil
}

// NoContent answers that it is done.
func (c *Call) NoContent() error {
	c.Status = http.StatusNoContent
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

// PartTime is how long a client may take to read one part of a long answer.
const PartTime = 30 * time.Second

// Streams sets the headers of a streamed answer: a compressing proxy, or nginx, would hold parts back until its buffer is
// full.
func (c *Call) Streams() {
	h := c.W.Header()
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// Stream sends a part of a long answer. An error means that the client is gone.
func (c *Call) Stream(rc *http.ResponseController, part []byte) error {
	_ = rc.SetReadDeadline(time.Time{}) // which would end the answer as if its reader had gone; tests' writers have no deadlines
	_ = rc.SetWriteDeadline(time.Now().Add(PartTime))
	if c.Status == 0 {
		c.Streams()
		c.Status = http.StatusOK
		c.W.WriteHeader(http.StatusOK)
	}
	if _, err := c.W.Write(part); err != nil {
		return fmt.Errorf("send answer: %w", err)
	}
	return rc.Flush()
}
