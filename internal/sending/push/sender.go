package push

import (
	"context"
	"encoding/json"
	"time"
)

// Sender sends over one channel with one app's credentials. It may be used by many goroutines at once.
type Sender interface {
	// Send makes one attempt. It returns a receipt, or one of this package's errors; nothing they say holds a secret.
	Send(ctx context.Context, r Request) (Receipt, error)
}

// Sent is a message that a provider accepted.
type Sent struct {
	Request    Request // as it was sent; its content is needed for a Corrector alone
	ExternalID string  // of the receipt
	At         time.Time
}

// Recaller is the ability to take back what was sent. Where a recall is itself a message (Web Push), it is sent here.
type Recaller interface {
	// Recall answers one error a message, in order. Nil: it is gone, or will be as soon as the device is reached.
	// PermanentError: it cannot be taken back, and why; the other errors as for Send.
	Recall(ctx context.Context, sent []Sent) []error
}

// Corrector is the ability to change what a message says that was sent.
type Corrector interface {
	// Correct makes the message say what the content of its request says, but for its media, which stays; nil: it does,
	// or did before. PermanentError: it cannot be changed, and why; the other errors as for Send. Correcting twice does no harm.
	Correct(ctx context.Context, sent Sent) error
}

// Pace is how fast an address may be sent to.
type Pace struct {
	Scope string  // what is paced together: a credential, or a credential at one origin
	Rate  float64 // messages a second that the provider lets through in this scope; 0: none is known, start slowly
	Burst int     // messages at once; 0: 1

	Chat  string        // a narrower scope within; empty: none
	Every time.Duration // least time between two messages to Chat
}

// Pacer is the ability to say how fast to send. Without it one scope takes all, and no rate is known.
type Pacer interface {
	Pace(address json.RawMessage) Pace
}

// Checker is the ability to try the credentials without sending anything.
type Checker interface {
	// Check asks the provider whether it takes the credentials and says, for people, whose they are.
	Check(ctx context.Context) (about string, err error)
}
