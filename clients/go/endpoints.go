package godwit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// NewEndpoint is a request to register an endpoint, a push address. If the address is registered already, the given fields replace the
// stored ones.
type NewEndpoint struct {
	ID         string          `json:"id,omitempty"`        // a ULID or UUID to use; empty: the server creates one
	Channel    string          `json:"channel"`             // live, webpush, fcm, apns, telegram or webhook
	Recipient  string          `json:"recipient,omitempty"` // empty: an anonymous subscriber
	Address    json.RawMessage `json:"address,omitempty"`   // as the channel defines it, for example {"chat_id":42}
	Tags       []string        `json:"tags,omitempty"`
	Attributes map[string]any  `json:"attributes,omitempty"` // texts, numbers and truths
	Locale     string          `json:"locale,omitempty"`
	Timezone   string          `json:"timezone,omitempty"`
	// CreatedAt and LastSeenAt are times that the endpoint had in another service; zero: now. Only a back end may set them. If the address is
	// registered already, the earlier creation and the later use count.
	CreatedAt  time.Time `json:"created_at,omitzero"`
	LastSeenAt time.Time `json:"last_seen_at,omitzero"`
}

// EndpointResult is the result for a NewEndpoint.
type EndpointResult struct {
	ID          string `json:"id"`
	Created     bool   `json:"created"`                // false: the endpoint existed and was updated
	ManageToken string `json:"manage_token,omitempty"` // secret with which its holder can change and delete the endpoint; only from single registrations
	// Warnings list values that the server could not interpret and omitted: a language, a time zone.
	Warnings []string `json:"warnings,omitempty"`
	Err      error    `json:"-"` // an *Error if this one of several registrations failed
}

// Endpoint is a push address and its properties.
type Endpoint struct {
	ID             string          `json:"id"`
	Channel        string          `json:"channel"`
	Recipient      string          `json:"recipient"`
	Address        json.RawMessage `json:"address"`
	Tags           []string        `json:"tags"`
	Attributes     map[string]any  `json:"attributes"`
	Locale         string          `json:"locale"`
	Timezone       string          `json:"timezone"`
	Status         string          `json:"status"` // active or disabled
	DisabledReason string          `json:"disabled_reason"`
	CreatedAt      time.Time       `json:"created_at"`
	UpdatedAt      time.Time       `json:"updated_at"`
	LastSeenAt     time.Time       `json:"last_seen_at,omitzero"`
}

// Audience selects the endpoints for which all given conditions hold; empty conditions are ignored.
type Audience struct {
	Channels   []string `json:"channels,omitempty"`
	Recipients []string `json:"recipients,omitempty"`
	Endpoints  []string `json:"endpoints,omitempty"` // ids, at most 1000
	TagsAny    []string `json:"tags_any,omitempty"`
	TagsAll    []string `json:"tags_all,omitempty"`
	Where      string   `json:"where,omitempty"`   // a segment expression, for example: city = "Oslo" and age >= 18
	Segment    string   `json:"segment,omitempty"` // a stored segment, whose expression must hold too
}

// EndpointFilter narrows a list of endpoints.
type EndpointFilter struct {
	Channel, Recipient, Tag, Status, Where, Segment string
}

func (f *EndpointFilter) query() url.Values {
	q := url.Values{}
	for name, v := range map[string]string{"channel": f.Channel, "recipient": f.Recipient, "tag": f.Tag, "status": f.Status, "where": f.Where, "segment": f.Segment} {
		if v != "" {
			q.Set(name, v)
		}
	}
	return q
}

const endpointsPath = "/v1/endpoints"

// RegisterEndpoint registers one endpoint.
func (c *Client) RegisterEndpoint(ctx context.Context, r NewEndpoint) (EndpointResult, error) {
	var done EndpointResult
	if err := c.doJSON(ctx, request{method: http.MethodPost, path: endpointsPath}, r, &done); err != nil {
		return done, fmt.Errorf("register endpoint: %w", err)
	}
	return done, nil
}

// MaxNewEndpoints is the most endpoints that one call of RegisterEndpoints accepts.
const MaxNewEndpoints = maxBatchLines

// RegisterEndpoints registers up to MaxNewEndpoints in one request. It returns one result for each, in order; an invalid one does not
// affect the others. Repeating the call is harmless.
func (c *Client) RegisterEndpoints(ctx context.Context, rs []NewEndpoint) ([]EndpointResult, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	for i := range rs {
		if err := enc.Encode(&rs[i]); err != nil {
			return nil, fmt.Errorf("register endpoints: %w", err)
		}
	}
	answer, err := c.do(ctx, request{method: http.MethodPost, path: endpointsPath + "/batch", body: body.Bytes(), contentType: "application/x-ndjson"})
	if err != nil {
		return nil, fmt.Errorf("register endpoints: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(answer))
	done := make([]EndpointResult, len(rs))
	for i := range done {
		var line struct {
			EndpointResult
			Error *problem `json:"error"`
		}
		if err := dec.Decode(&line); err != nil {
			return done[:i], fmt.Errorf("register endpoints: read answer: %w", err)
		}
		if done[i] = line.EndpointResult; line.Error != nil {
			done[i].Err = line.Error.err()
		}
	}
	return done, nil
}

// Endpoint returns one endpoint.
func (c *Client) Endpoint(ctx context.Context, id string) (Endpoint, error) {
	var e Endpoint
	if err := c.doJSON(ctx, request{method: http.MethodGet, path: pathTo("endpoints", id)}, nil, &e); err != nil {
		return e, fmt.Errorf("read endpoint %s: %w", id, err)
	}
	return e, nil
}

// Endpoints lists the endpoints that match the filter, in the order of registration. It reads them page by page.
func (c *Client) Endpoints(ctx context.Context, f EndpointFilter) iter.Seq2[Endpoint, error] {
	return func(yield func(Endpoint, error) bool) {
		q := f.query()
		q.Set("limit", "500")
		for {
			var page struct {
				Items      []Endpoint `json:"items"`
				NextCursor string     `json:"next_cursor"`
			}
			if err := c.doJSON(ctx, request{method: http.MethodGet, path: endpointsPath, query: q}, nil, &page); err != nil {
				yield(Endpoint{}, fmt.Errorf("list endpoints: %w", err))
				return
			}
			for i := range page.Items {
				if !yield(page.Items[i], nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			q.Set("cursor", page.NextCursor)
		}
	}
}

// ExportEndpoints writes endpoints to w as they arrive, in format "ndjson" or "csv". Only ctx limits its duration.
func (c *Client) ExportEndpoints(ctx context.Context, w io.Writer, format string, f EndpointFilter) error {
	q := f.query()
	q.Set("format", format)
	resp, err := c.send(ctx, request{method: http.MethodGet, path: endpointsPath + "/export", query: q}, "")
	if err != nil {
		return fmt.Errorf("export endpoints: %w", err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("export endpoints: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// ChangeEndpoint changes the named fields of an endpoint, for example {"add_tags": ["vip"], "attributes": {"age": nil}},
// and returns the changed endpoint.
func (c *Client) ChangeEndpoint(ctx context.Context, id string, change map[string]any) (Endpoint, error) {
	var e Endpoint
	r := request{method: http.MethodPatch, path: pathTo("endpoints", id)}
	if err := c.doJSON(ctx, r, change, &e); err != nil {
		return e, fmt.Errorf("change endpoint %s: %w", id, err)
	}
	return e, nil
}

// DeleteEndpoint deletes an endpoint.
func (c *Client) DeleteEndpoint(ctx context.Context, id string) error {
	if _, err := c.do(ctx, request{method: http.MethodDelete, path: pathTo("endpoints", id)}); err != nil {
		return fmt.Errorf("delete endpoint %s: %w", id, err)
	}
	return nil
}

// AudienceCount is the number of endpoints in an audience.
type AudienceCount struct {
	Count    int64            `json:"count"`
	Channels map[string]int64 `json:"channels"`
}

// CountAudience counts the active endpoints of an audience.
func (c *Client) CountAudience(ctx context.Context, a Audience) (AudienceCount, error) {
	var n AudienceCount
	if err := c.doJSON(ctx, request{method: http.MethodPost, path: "/v1/audience/count"}, a, &n); err != nil {
		return n, fmt.Errorf("count audience: %w", err)
	}
	return n, nil
}
