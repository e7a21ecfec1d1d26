package godwit

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// Call is a request of the HTTP API for which this package has no method.
type Call struct {
	Method, Path string // names in the path must be escaped, as by url.PathEscape
	Query        url.Values
	Body         any    // sent as JSON; nil: none
	Key          string // Idempotency-Key: however often a POST with it is sent, it creates only one thing
	Accept       string
	IfMatch      string // the revision to which a change applies, or *
}

func (c Call) request() request {
	r := request{method: c.Method, path: c.Path, query: c.Query}
	r.header = http.Header{}
	if c.Key != "" {
		r.header.Set("Idempotency-Key", c.Key)
	}
	if c.IfMatch != "" {
		r.header.Set("If-Match", c.IfMatch)
	}
	return r
}

// Call carries out a request, retries it after temporary failures, and decodes the JSON answer into out, unless that is nil. Error answers
// of the server are returned as *Error.
func (c *Client) Call(ctx context.Context, call Call, out any) error {
	return c.doJSON(ctx, call.request(), call.Body, out)
}

// Stream sends a request without a body and returns its answer as a stream. The caller closes it.
func (c *Client) Stream(ctx context.Context, call Call) (io.ReadCloser, error) {
	resp, err := c.send(ctx, call.request(), call.Accept)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
