package preference

import (
	"encoding/json"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// Bounds of a Digest.
const (
	MinWindow = time.Second
	MaxWindow = 7 * 24 * time.Hour // a week's digest; a notification with the default ttl then still expires within notification.MaxTTL
	// MaxDigestItems is the most notifications that one digest gathers: its last step reads and settles all of them in one transaction.
	MaxDigestItems = 1000
	maxFieldBytes  = 256 // of a path into data
)

// Digest says that a category gathers: the first notification of a recipient and key waits for the window, later ones join it, and one
// notification leaves for all. The zero one gathers nothing.
type Digest struct {
	Window   time.Duration
	By       string // field of the data whose value is the key, with dots into objects; empty: all of a recipient gather together
	Max      int    // items with which a digest leaves at once; 0: MaxDigestItems
	Template string // makes the content; empty: a plain text
}

// IsZero reports whether nothing is gathered.
func (d Digest) IsZero() bool { return d == Digest{} }

// WindowText writes the window without units that are zero: 10m, not 10m0s.
func (d Digest) WindowText() string {
	text := d.Window.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Most is the number of items with which a digest leaves at once.
func (d Digest) Most() int {
	if d.Max == 0 {
		return MaxDigestItems
	}
	return d.Max
}

// Check checks the settings of a category that gathers.
func (d Digest) Check() error {
	switch {
	case d.Window == 0:
		return notification.BadField("digest.window", "is required: how long the first notification waits for others, like 10m")
	case d.Window < MinWindow || d.Window > MaxWindow:
		return notification.BadField("digest.window", "is %s; it must be from %s to 7 days", d.Window, MinWindow)
	case d.Max < 0 || d.Max == 1 || d.Max > MaxDigestItems:
		return notification.BadField("digest.max", "is %d; it must be from 2 to %d", d.Max, MaxDigestItems)
	case len(d.By) > maxFieldBytes:
		return notification.BadField("digest.by", "has %d bytes; at most %d are allowed", len(d.By), maxFieldBytes)
	case d.Template != "":
		if err := notification.CheckName("digest.template", d.Template); err != nil {
			return err
		}
	}
	return notification.CheckText("digest.by", d.By)
}

// digestJSON is how a Digest is stored.
type digestJSON struct {
	Window   int64  `json:"window_ms"`
	By       string `json:"by,omitempty"`
	Max      int    `json:"max,omitempty"`
	Template string `json:"template,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (d Digest) MarshalJSON() ([]byte, error) {
	return json.Marshal(digestJSON{d.Window.Milliseconds(), d.By, d.Max, d.Template})
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Digest) UnmarshalJSON(b []byte) error {
	var v digestJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*d = Digest{time.Duration(v.Window) * time.Millisecond, v.By, v.Max, v.Template}
	return nil
}
