package blackbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/testkit/apispec"
)

// API is a client of the HTTP API with a back end's key.
type API struct {
	Base string // http://host:port
	Key  string
	HTTP *http.Client
}

// API returns a client with the development key, or the given one.
func (s *Server) API(key ...string) *API {
	a := &API{Base: "http://" + s.HTTP, Key: "dev", HTTP: NewHTTPClient()}
	if len(key) > 0 {
		a.Key = key[0]
	}
	return a
}

// NewHTTPClient returns a client with connections of its own, enough for many concurrent requests.
func NewHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}}
}

// Answer is a completely read response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// JSON reads the body into v.
func (a *Answer) JSON(v any) error {
	if err := json.Unmarshal(a.Body, v); err != nil {
		return fmt.Errorf("answer %d %q: %w", a.Status, a.Body, err)
	}
	return nil
}

// Problem is a problem as defined by RFC 9457.
type Problem struct {
	Type, Title, Detail, Field string
	Status                     int
}

// Problem reads the body as a problem; it is the zero value if it is none.
func (a *Answer) Problem() (p Problem) {
	if a.Header.Get("Content-Type") != "application/problem+json" || json.Unmarshal(a.Body, &p) != nil {
		return Problem{}
	}
	return p
}

// Do sends a request. A body that is neither nil nor []byte is sent as JSON. An answer that the OpenAPI file does not allow is an error.
func (a *API) Do(ctx context.Context, method, path string, body any) (*Answer, error) {
	var payload []byte
	switch b := body.(type) {
	case nil:
	case []byte:
		payload = b
	default:
		var err error
		if payload, err = json.Marshal(b); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, a.Base+path, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.Key != "" {
		req.Header.Set("Authorization", "Bearer "+a.Key)
	}
	resp, err := a.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if err := apispec.AnswerConforms(req, resp, b); err != nil {
		return nil, err
	}
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: b}, nil
}

// Publish publishes one notification and returns an error unless it was stored (201) or known before (200).
func (a *API) Publish(ctx context.Context, n map[string]any) error {
	answer, err := a.Do(ctx, http.MethodPost, "/v1/notifications", n)
	if err != nil {
		return err
	}
	if answer.Status != http.StatusCreated && answer.Status != http.StatusOK {
		return fmt.Errorf("publish %v: %d %s", n["id"], answer.Status, answer.Body)
	}
	return nil
}

// State is the status API's answer about one copy.
type State struct {
	ID, To, Status string
	Attempts       int
	AckedAt        string `json:"acked_at"`
}

// State returns the state of one copy.
func (a *API) State(ctx context.Context, id, to string) (s State, err error) {
	answer, err := a.Do(ctx, http.MethodGet, "/v1/notifications/"+url.PathEscape(id)+"?to="+url.QueryEscape(to), nil)
	if err != nil {
		return s, err
	}
	if answer.Status != http.StatusOK {
		return s, fmt.Errorf("state of %s for %s: %d %s", id, to, answer.Status, answer.Body)
	}
	return s, answer.JSON(&s)
}

// WantState returns an error unless a copy has the status.
func (a *API) WantState(ctx context.Context, id, to, status string) error {
	s, err := a.State(ctx, id, to)
	if err == nil && s.Status != status {
		err = fmt.Errorf("%s for %s is %s, want %s", id, to, s.Status, status)
	}
	return err
}

// Pending returns the number of pending notifications of all recipients.
func (a *API) Pending(ctx context.Context) (sum int, err error) {
	cursor := ""
	for {
		answer, err := a.Do(ctx, http.MethodGet, "/v1/recipients?limit=500&cursor="+url.QueryEscape(cursor), nil)
		if err != nil {
			return 0, err
		}
		if answer.Status != http.StatusOK {
			return 0, fmt.Errorf("list recipients: %d %s", answer.Status, answer.Body)
		}
		var page struct {
			Items      []struct{ Pending int }
			NextCursor string `json:"next_cursor"`
		}
		if err := answer.JSON(&page); err != nil {
			return 0, err
		}
		for _, r := range page.Items {
			sum += r.Pending
		}
		if page.NextCursor == "" {
			return sum, nil
		}
		cursor = page.NextCursor
	}
}

// Metric returns the sum of a metric's samples whose names and labels begin with name: Metric(ctx, `x_total{state="alive"`).
func (a *API) Metric(ctx context.Context, name string) (sum float64, err error) {
	answer, err := a.Do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(answer.Body)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] >= 'a' && rest[0] <= 'z' || rest[0] == '_' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		if err != nil {
			return 0, fmt.Errorf("metric %q: %w", line, err)
		}
		sum += v
	}
	return sum, nil
}

// Event is one line of the events feed.
type Event struct {
	EventID json.RawMessage `json:"event_id"`
	Type    string
	ID, To  string
	Channel string
	Detail  string

	Reconciled bool
}

// Events reads the feed from its beginning and calls use with each event, until use returns false.
func (a *API) Events(ctx context.Context, types string, use func(Event) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Base+"/v1/events?since=0&types="+types, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+a.Key)
	req.Header.Set("Accept", "application/x-ndjson")
	resp, err := a.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("events: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue // a sign of life
		}
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("event %q: %w", lines.Bytes(), err)
		}
		if !use(e) {
			return nil
		}
	}
	return lines.Err()
}
