// Package channel keeps the settings and credentials of each app's push channels, and the senders made from them. Credentials can be set,
// and are never shown.
package channel

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/sending/push"
)

// Errors that callers distinguish. Functions return them wrapped, never bare.
var (
	// ErrUnknown: this server has no channel of that name.
	ErrUnknown = errors.New("no such channel")
	// ErrNotConfigured: the app has not set the channel up.
	ErrNotConfigured = errors.New("channel is not configured")
	// ErrDisabled: the app has switched the channel off.
	ErrDisabled = errors.New("channel is disabled")
)

// Values are the settings of a channel by the names of their fields, secrets included. They are never printed.
type Values map[string]string

// Format hides the values from every verb of fmt.
func (Values) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "[redacted]") }

// LogValue hides the values from slog.
func (Values) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// Type is the type of a field's value.
type Type = setting.Type

// Types of fields.
const (
	Text = setting.Text
	Bool = setting.Bool
	List = setting.Words
)

// Field is one setting of a channel.
type Field = setting.Field

// Badge is the setting of channels to phones by which an app's icon shows how much of its recipient's inbox is unseen.
var Badge = Field{Name: "badge", Type: Bool, Help: "true: the app's icon shows how much of the recipient's inbox is unseen; absent: messages leave it as it is"}

// Kind defines the settings of one channel. Its methods never keep or change the values they get, except Complete.
type Kind interface {
	Fields() []Field
	// Auto reports whether the channel works without settings.
	Auto() bool
	// Complete checks values and generates missing ones where it can. An error is a *notification.FieldError.
	Complete(v Values) (made Values, err error)
	// Shown returns further values to show with the settings, for example a public key.
	Shown(v Values) map[string]string
	// Open makes the sender of an app.
	Open(app string, v Values) (push.Sender, error)
}

// Options are what kinds get of the server. The zero value is that of the command line.
type Options struct {
	Targets   urlguard.Targets // to which addresses may lead that the operator and the app's admins set
	PublicURL string           // URL for reports of service workers; empty: they have it themselves
}

// Brought is a channel that a module brings.
type Brought struct {
	push.Definition
	Kind func(Options) Kind
}

// Record is one app's settings of one channel.
type Record struct {
	App       string
	Channel   push.Channel
	Enabled   bool
	Values    Values
	UpdatedAt time.Time
}

// Store keeps records. A new one is enabled and empty.
type Store = setting.Store[Record]

// Info is a channel's settings without secrets, for display.
type Info struct {
	Channel     push.Channel
	Configured  bool // the channel has settings, or needs none
	Enabled     bool
	Settings    map[string]any // without secrets: strings, true, lists of strings
	Credentials []string       // names of the secrets that are set
	UpdatedAt   time.Time      // zero: never
}

// Change holds new values. Values that it does not name stay; empty ones are removed.
type Change struct {
	Enabled *bool
	Values  Values
	Must    setting.Match // that the settings must have
}
