// Package call represents a request to the API: every route uses it to read the request strictly and to answer it.
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

// Call is one request that a handler is serving.
type Call struct {
	W   http.ResponseWriter
	R   *http.Request
	Ctx context.Context  // the request's context, with a deadline unless the route streams
	Key access.Principal // of routes with a role

	Made string // name of the thing that the call has created, if the path does not contain it

	Status int  // status of the answer; 0: none yet
	Sized  bool // the answer has a Content-Length, so that the connection can be used again before the handler returns
}

// Patience limits the time of an ordinary request. A publish that is not stored by then gets 503 and may be retried with the same id.
// Patience is shorter than the connection's write timeout.
const Patience = 15 * time.Second

// JSONType is the Content-Type of most answers.
const JSONType = "application/json"

// Values of the header Content-Type. They are shared slices, which net/http only reads; this saves an allocation for every answer.
var (
	valJSON = []string{JSONType}
	// NDJSON is the type of answers with one JSON value a line.
	NDJSON = []string{"application/x-ndjson"}
)

// Query parses the query; parameters that cannot be parsed are dropped as url.ParseQuery does.
func (c *Call) Query() url.Values { return c.R.URL.Query() }

// JSON answers with a body that is already JSON.
func (c *Call) JSON(status int, body []byte) error {
	c.W.Header()["Content-Type"] = valJSON
	return c.Send(status, body)
}

// Send sends the answer. A failed write means that the client is gone, which is no error of the server.
func (c *Call) Send(status int, body []byte) error {
	c.Status = status
	if c.Sized {
		c.W.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	c.W.WriteHeader(status)
	_, _ = c.W.Write(body)
	return nil
}

// NoContent answers with 204: the call is done.
func (c *Call) NoContent() error {
	c.Status = http.StatusNoContent
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

// PartTime limits the time for a client to read one part of a long answer.
const PartTime = 30 * time.Second

// Streams sets the headers of a streamed answer: without them a compressing proxy, or nginx, would delay parts until its buffer is full.
func (c *Call) Streams() {
	h := c.W.Header()
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// Stream sends a part of a long answer. An error means that the client is gone.
func (c *Call) Stream(rc *http.ResponseController, part []byte) error {
	_ = rc.SetReadDeadline(time.Time{}) // a read deadline would end the answer as if the client had gone; fails only for tests' writers, which have no deadlines
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
