package godwit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxAnswer limits the bytes read of an answer; the largest valid one, a batch's, has 10,000 lines.
const maxAnswer = 32 << 20

// request is one API call that may be carried out twice without harm.
type request struct {
	method, path string // names in the path must be escaped
	query        url.Values
	body         []byte
	file         io.Reader // sent once in the place of body; size is its number of bytes
	size         int64
	contentType  string
	header       http.Header
}

// do carries out a request, retries it after temporary failures, and returns the body of the successful answer.
func (c *Client) do(ctx context.Context, r request) ([]byte, error) {
	if err := checkPath(r.path); err != nil {
		return nil, err
	}
	var body []byte
	err := c.retry(ctx, func() (err error) {
		body, err = c.once(ctx, r)
		return err
	})
	return body, err
}

// retry carries out once until it succeeds, fails for good, or has failed as often as the client allows.
func (c *Client) retry(ctx context.Context, once func() error) error {
	wait := backoff{base: requestBase, most: requestMost}
	for try := 1; ; try++ {
		err := once()
		if err == nil {
			return nil
		}
		var e *Error
		if ctx.Err() != nil || errors.As(err, &e) && !e.temporary() || try >= c.attempts {
			return err
		}
		delay := wait.next()
		if e != nil {
			delay = max(delay, e.RetryAfter)
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < delay {
			return err // a retry would only hide the error
		}
		if c.onRetry != nil {
			c.onRetry(err, delay)
		}
		if sleep(ctx, delay) != nil {
			return err
		}
	}
}

func (c *Client) once(ctx context.Context, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("server did not answer in %s", c.timeout))
	defer cancel()
	resp, err := c.transmit(ctx, r, "")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return body, nil
}

// send sends a request once and returns the response if it is a success. The caller closes its body.
func (c *Client) send(ctx context.Context, r request, accept string) (*http.Response, error) {
	if err := checkPath(r.path); err != nil {
		return nil, err
	}
	return c.transmit(ctx, r, accept)
}

// transmit is send for a request whose path was checked before.
func (c *Client) transmit(ctx context.Context, r request, accept string) (*http.Response, error) {
	u := *c.base
	plain, err := url.PathUnescape(r.path)
	if err != nil {
		return nil, err
	}
	u.RawPath = u.EscapedPath() + r.path
	u.Path += plain
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if r.file != nil {
		req.Body, req.GetBody, req.ContentLength = io.NopCloser(r.file), nil, r.size
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
			err = cause
		}
		return nil, fmt.Errorf("reach server: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		return nil, responseError(resp, body)
	}
	return resp, nil
}

func (c *Client) doJSON(ctx context.Context, r request, in, out any) error {
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		r.body, r.contentType = b, "application/json"
	}
	body, err := c.do(ctx, r)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}
