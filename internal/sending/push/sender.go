package push

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// Sender sends over one channel with one app's credentials. It is safe for concurrent use.
type Sender interface {
	// Send makes one attempt. It returns a receipt, or one of this package's errors; neither contains secrets.
	Send(ctx context.Context, r Request) (Receipt, error)
}

// Sent is a message that a provider accepted.
type Sent struct {
	Request    Request // the request as sent; only a Corrector needs its content
	ExternalID string  // of the receipt
	At         time.Time
}

// Recaller is implemented by senders that can take sent messages back. On channels where a recall is itself a message (Web Push), Recall
// sends it.
type Recaller interface {
	// Recall returns one error for each message, in order. Nil: the message is gone, or will be once the device is reachable.
	// PermanentError: it cannot be taken back, with the reason; other errors mean the same as from Send.
	Recall(ctx context.Context, sent []Sent) []error
}

// Corrector is implemented by senders that can change the content of a sent message.
type Corrector interface {
	// Correct replaces a sent message's content with that of its request, except for its media, which stays. Nil: it is corrected, now or
	// before. PermanentError: it cannot be changed, with the reason; other errors mean the same as from Send. Correcting twice does no
	// harm.
	Correct(ctx context.Context, sent Sent) error
}

// Pace limits the rate of messages to an address.
type Pace struct {
	Scope string  // the unit of pacing: a credential, or a credential at one origin
	Rate  float64 // messages a second that the provider accepts in this scope; 0: unknown, start slowly
	Burst int     // messages at once; 0: 1

	Chat  string        // a narrower scope within Scope; empty: none
	Every time.Duration // least time between two messages to Chat
}

// Pacer is implemented by senders that know how fast to send. The messages of other senders all share one scope of unknown rate.
type Pacer interface {
	Pace(address json.RawMessage) Pace
}

// Weigher is implemented by senders whose message may count several times at its provider.
type Weigher interface {
	// Weight returns as how many messages a content counts; at least 1.
	Weight(c *Content) int
}

// File is a file on its way to a provider.
type File struct {
	Type string // as the channel names it: photo
	Name string
	Size int64 // in bytes; -1: unknown
	Body io.Reader
}

// Uploader is implemented by senders whose provider keeps files, which messages then name.
type Uploader interface {
	// MaxFile returns the largest size of a file of a type, in bytes; 0: there is no such type.
	MaxFile(kind string) int64
	// Upload gives the provider a file, for which it needs an address, and returns the file's id.
	Upload(ctx context.Context, address json.RawMessage, f *File) (id string, err error)
}

// Checker is implemented by senders that can try the credentials without sending anything.
type Checker interface {
	// Check tests the credentials with the provider; about names their owner, for people.
	Check(ctx context.Context) (about string, err error)
}
