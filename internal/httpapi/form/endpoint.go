// Package form is how endpoints and sessions look in requests and answers, whoever calls.
package form

import (
	"encoding/json"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/httpapi/call"
	"godwit.dev/godwit/internal/push"
)

// MaxEndpoint holds an endpoint with all its tags and attributes.
const MaxEndpoint = 64 << 10

// Endpoint is an endpoint as it is read.
type Endpoint struct {
	ID             string              `json:"id"`
	Channel        push.Channel        `json:"channel"`
	Recipient      *string             `json:"recipient"`
	Address        json.RawMessage     `json:"address,omitempty"`
	Tags           []string            `json:"tags"`
	Attributes     audience.Attributes `json:"attributes"`
	Locale         *string             `json:"locale"`
	Timezone       *string             `json:"timezone"`
	Status         audience.Status     `json:"status"`
	DisabledReason *string             `json:"disabled_reason"`
	CreatedAt      call.Moment         `json:"created_at"`
	UpdatedAt      call.Moment         `json:"updated_at"`
	LastSeenAt     call.Moment         `json:"last_seen_at"`
}

// ViewEndpoint shows an endpoint.
func ViewEndpoint(e *audience.Endpoint) Endpoint {
	v := Endpoint{
		ID: e.ID.String(), Channel: e.Channel, Recipient: call.OrNull(e.Recipient), Address: e.Address, Tags: e.Tags, Attributes: e.Attributes,
		Locale: call.OrNull(e.Locale), Timezone: call.OrNull(e.Timezone), Status: e.Status, DisabledReason: call.OrNull(e.DisabledReason),
		CreatedAt: call.Moment(e.CreatedAt), UpdatedAt: call.Moment(e.UpdatedAt), LastSeenAt: call.Moment(e.LastSeenAt),
	}
	if v.Tags == nil {
		v.Tags = []string{}
	}
	if v.Attributes == nil {
		v.Attributes = audience.Attributes{}
	}
	return v
}
