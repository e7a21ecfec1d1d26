package godwit

import (
	"context"
	"fmt"
	"net/http"
)

// Preferences are a recipient's wishes about which channels may reach it outside its sessions. They apply when a step of an escalation
// starts. The zero value is the default: every channel, at any time.
type Preferences struct {
	// Categories lists the channels that each category may use; "*" is every category without an entry.
	Categories map[string]Choice `json:"categories,omitempty"`
	// QuietHours are the hours in which no step begins, unless its notification is urgent or its category critical; they need a Timezone.
	QuietHours *QuietHours `json:"quiet_hours,omitempty"`
	Timezone   string      `json:"timezone,omitempty"` // like Europe/Oslo
}

// Choice lists the channels that a category may use.
type Choice struct {
	Channels []string `json:"channels,omitzero"` // nil: all; empty: none
}

// QuietHours begin and end at a time of the day, like 22:00 and 08:00.
type QuietHours struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Preferences returns a recipient's preferences. An API key can read anybody's, a client's token only its own.
func (c *Client) Preferences(ctx context.Context, recipient string) (Preferences, error) {
	var p Preferences
	if err := c.doJSON(ctx, request{method: http.MethodGet, path: preferencesPath(recipient)}, nil, &p); err != nil {
		return p, fmt.Errorf("read preferences of %s: %w", recipient, err)
	}
	return p, nil
}

// SetPreferences replaces a recipient's preferences. The zero value removes them.
func (c *Client) SetPreferences(ctx context.Context, recipient string, p Preferences) error {
	if err := c.doJSON(ctx, request{method: http.MethodPut, path: preferencesPath(recipient)}, p, nil); err != nil {
		return fmt.Errorf("set preferences of %s: %w", recipient, err)
	}
	return nil
}

func preferencesPath(recipient string) string {
	return pathTo("recipients", recipient, "preferences")
}
