package push

import (
	"context"
	"encoding/json"
	"time"
)

// Sender sends over one channel with one app's credentials. It may be used by many goroutines at once.
type Sender interface {
	// Send makes one attempt. It returns a receipt, or one of this package's errors; neither contains a secret.
	Send(ctx context.Context, r Request) (Receipt, error)
}

// Sent is a message that a provider accepted.
type Sent struct {
	Request    Request // as it was sent; only a Corrector needs its content
	ExternalID string  // of the receipt
	At         time.Time
}

// Recaller is the ability to take back what was sent. Where a recall is itself a message (Web Push), it is sent here.
type Recaller interface {
	// Recall answers one error a message, in order. Nil: it is gone, or will be as soon as the device is reached.
	// PermanentError: it cannot be taken back, and why; the other errors as for Send.
	Recall(ctx context.Context, sent []Sent) []error
}

// Corrector is implemented by senders that can change the content of a sent message.
type Corrector interface {
	// Correct gives a sent message the content of its request, except for its media, which stays; nil: done now or before.
	// PermanentError: it cannot be changed, and why; the other errors as for Send. Correcting twice does no harm.
	Correct(ctx context.Context, sent Sent) error
}

// Pace is how fast an address may be sent to.
type Pace struct {
	Scope string  // the unit of pacing: a credential, or a credential at one origin
	Rate  float64 // messages a second that the provider accepts in this scope; 0: unknown, start slowly
	Burst int     // messages at once; 0: 1

	Chat  string        // a narrower scope within; empty: none
	Every time.Duration // least time between two messages to Chat
}

// Pacer is implemented by senders that know how fast to send. Without it all messages share one scope, and no rate is
// known.
type Pacer interface {
	Pace(address json.RawMessage) Pace
}

// Checker is the ability to try the credentials without sending anything.
type Checker interface {
	// Check tests the credentials with the provider and says, for people, whose they are.
	Check(ctx context.Context) (about string, err error)
}
