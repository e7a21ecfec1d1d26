package godwit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// AskOptions are further options of Ask and AskRecipient.
type AskOptions struct {
	ContentType string
	Timeout     time.Duration // how long to wait for an answer, at most 60 s; 0: 5 s
	Device      string        // of AskRecipient: the device that receives the request; empty: the newest
	Subject     string        // of AskRecipient: the request's subject
}

// Ask sends a request to one of the workers that serve a subject (role publish) and returns its answer, whatever its status. An *Error
// means that there is no answer: it matches ErrNobodyServes, or ErrNoAnswer, after which the worker may have carried out the request. The
// request is sent only once.
func (c *Client) Ask(ctx context.Context, subject string, data []byte, o AskOptions) (*Answer, error) {
	if c.rpc != nil {
		return c.rpc.ask(ctx, c, subject, "", data, o)
	}
	return c.ask(ctx, pathTo("requests", subject), url.Values{}, data, o)
}

// AskRecipient sends a request to a connected client of a recipient. It fails with ErrNobodyServes if none is connected.
func (c *Client) AskRecipient(ctx context.Context, recipient string, data []byte, o AskOptions) (*Answer, error) {
	if c.rpc != nil {
		if err := checkName("recipient", recipient); err != nil {
			return nil, err
		}
		return c.rpc.ask(ctx, c, "", recipient, data, o)
	}
	q := url.Values{}
	for name, v := range map[string]string{"device": o.Device, "subject": o.Subject} {
		if v != "" {
			q.Set(name, v)
		}
	}
	return c.ask(ctx, pathTo("recipients", recipient, "requests"), q, data, o)
}

// defaultAsk is how long the server waits for an answer if no time is set.
const defaultAsk = 5 * time.Second

func (c *Client) ask(ctx context.Context, path string, q url.Values, data []byte, o AskOptions) (*Answer, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	wait := defaultAsk
	if o.Timeout > 0 {
		wait = o.Timeout
		q.Set("timeout", wait.String())
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait+c.timeout, fmt.Errorf("server did not answer in %s", wait+c.timeout))
	defer cancel()
	address := strings.TrimSuffix(c.base.String(), "/") + path
	if len(q) > 0 {
		address += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if o.ContentType != "" {
		req.Header.Set("Content-Type", o.ContentType)
	}
	direct := *c.http
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a redirect is an answer too
	resp, err := direct.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reach server: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerData+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	a := &Answer{Status: resp.StatusCode, Header: resp.Header, Data: body, ContentType: resp.Header.Get("Content-Type")}
	var p problem
	if a.ContentType == "application/problem+json" && json.Unmarshal(body, &p) == nil && strings.HasPrefix(p.Type, "/problems/") {
		return nil, responseError(resp, body)
	}
	return a, nil
}
