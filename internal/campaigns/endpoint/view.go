package endpoint

import (
	"encoding/json"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// View is an endpoint in the JSON of the API and of exports.
type View struct {
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
	CreatedAt      *string             `json:"created_at"`
	UpdatedAt      *string             `json:"updated_at"`
	LastSeenAt     *string             `json:"last_seen_at"`
}

// NewView shows an endpoint.
func NewView(e *audience.Endpoint) View {
	v := View{
		ID: e.ID.String(), Channel: e.Channel, Recipient: orNull(e.Recipient), Address: e.Address, Tags: e.Tags, Attributes: e.Attributes,
		Locale: orNull(e.Locale), Timezone: orNull(e.Timezone), Status: e.Status, DisabledReason: orNull(e.DisabledReason),
		CreatedAt: moment(e.CreatedAt), UpdatedAt: moment(e.UpdatedAt), LastSeenAt: moment(e.LastSeenAt),
	}
	if v.Tags == nil {
		v.Tags = []string{}
	}
	if v.Attributes == nil {
		v.Attributes = audience.Attributes{}
	}
	return v
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func moment(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return orNull(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}
