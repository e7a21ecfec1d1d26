// Package endpointrow defines the contents of rows of endpoints, and of the rows that serve to find them. All databases have the same
// contents, since rows are copied from one to another.
package endpointrow

import (
	"encoding/json"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/notification"
)

// Columns lists the columns of an endpoint, in a table with the alias e.
const Columns = `e.number, e.app, e.id, e.channel, e.recipient, e.address, e.tags, e.attributes, e.locale, e.timezone,
	e.active, e.disabled_reason, e.created_at, e.updated_at, e.last_seen_at, e.token`

// Limits.
const (
	// MaxOfRecipient limits the endpoints of one recipient that are shown: people have a few devices.
	MaxOfRecipient = 1000
	// SweepEvery is the shortest interval between two deletions of unused names, each of which reads all names of an app.
	SweepEvery = time.Minute
)

// MovedOntoAnother is the reason of a disabled endpoint that has moved to the address of another registered one.
const MovedOntoAnother = "moved to the address of another endpoint"

const (
	noTags       = "[]"
	noAttributes = "{}"
)

// JSON returns the parts of an endpoint that are stored as JSON.
func JSON(e *audience.Endpoint) (tags, attributes string, err error) {
	t, a := []byte(noTags), []byte(noAttributes)
	if len(e.Tags) > 0 {
		t, err = json.Marshal(e.Tags)
	}
	if len(e.Attributes) > 0 && err == nil {
		a, err = json.Marshal(e.Attributes)
	}
	if err != nil {
		return "", "", fmt.Errorf("encode endpoint %s: %w", e.ID, err)
	}
	return string(t), string(a), nil
}

// ReadJSON reads what JSON wrote.
func ReadJSON(e *audience.Endpoint, tags, attributes string) (err error) {
	if tags != noTags {
		err = json.Unmarshal([]byte(tags), &e.Tags)
	}
	if attributes != noAttributes && err == nil {
		err = json.Unmarshal([]byte(attributes), &e.Attributes)
	}
	if err != nil {
		return fmt.Errorf("read endpoint %s: its row is damaged: %w", e.ID, err)
	}
	return nil
}

// StatusOf converts the column active.
func StatusOf(active bool) audience.Status {
	if active {
		return audience.Active
	}
	return audience.Disabled
}

// Count names a counter of an app's endpoints.
type Count struct {
	Channel string
	Active  bool
}

// CountOf returns the counter that includes an endpoint.
func CountOf(e *audience.Endpoint) Count {
	return Count{string(e.Channel), e.Status == audience.Active}
}

// Names is one of the two tables of names.
type Names struct {
	Table       string
	field, what string
	most        int64
}

// The tables of names.
var (
	Tags       = Names{"tag_name", "tags", "tags", audience.MaxTagNames}
	Attributes = Names{"attribute_name", "attributes", "names of attributes", audience.MaxAttributeNames}
)

// Most returns the number of names that an app may have. Strangers have a lower limit, which leaves room for the back end's own names.
func (t *Names) Most(trusted bool) int64 {
	if trusted {
		return t.most
	}
	return t.most / 2
}

// TooMany returns the error for a name that would exceed the limit of an app, which has n names.
func (t *Names) TooMany(name string, n int64) error {
	return &TooManyNames{&notification.FieldError{Field: t.field, Problem: fmt.Sprintf("%q would be one too many: the app has %d different %s", name, n, t.what)}}
}

// TooManyNames says that an app already has as many different names as allowed.
type TooManyNames struct{ field error }

func (e *TooManyNames) Error() string { return e.field.Error() }
func (e *TooManyNames) Unwrap() error { return e.field }
