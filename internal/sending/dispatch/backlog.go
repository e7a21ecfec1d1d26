package dispatch

import (
	"context"
	"log/slog"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// Backlog is where deliveries come from and where their outcomes are kept: rows of one app that belong together. The
// bounds on the loss in a crash rest on these promises:
//
//   - The deliveries that Claim returns are on disk as being sent when it returns. The process that opens the store
//     after a crash finds them so and settles them as Resends says.
//   - The results for which Finish returned nil are on disk: Due shows those deliveries no more, or not before their
//     time.
//   - Once somebody else owns the rows, Claim and Finish fail with ErrStale and change nothing.
//
// Its methods are called by several goroutines at once, Claim and Finish too.
type Backlog interface {
	// Due reads up to limit due pending deliveries of a channel, those due the longest first.
	Due(ctx context.Context, ch push.Channel, now time.Time, limit int) ([]Delivery, error)
	// NextDue returns when the next pending delivery of a channel becomes due; zero: there are none, except held ones. ended: no further
	// deliveries will be added. When the present ones are settled, the job is done.
	NextDue(ctx context.Context, ch push.Channel) (at time.Time, ended bool, err error)
	// Window returns the time in which a delivery may be sent: not before from, and before until, when it expires. It is called before each
	// attempt and must not wait.
	Window(d *Delivery, now time.Time) (from, until time.Time)
	// Claim marks deliveries as being sent and returns the marked ones, unchanged. It is called immediately before they are sent. It omits
	// deliveries that must no longer be sent, and settles them unless other code does. If it returns none, the job is about to be stopped.
	Claim(ctx context.Context, ds []Delivery, now time.Time) (claimed []Delivery, err error)
	// Request renders the message. Its ExpiresAt is Window's until: no attempt is planned beyond it.
	Request(d *Delivery, now time.Time) push.Request
	// Finish stores the results of deliveries of one or several channels: claimed ones, and others that need not be sent. It disables
	// endpoints that are gone and updates those that moved.
	Finish(ctx context.Context, results []Result, now time.Time) error
}

// Work is a backlog with the parameters for sending it.
type Work struct {
	App      string
	Channels []push.Channel
	Backlog  Backlog
	Rate     float64 // messages a second, all channels together; 0: as fast as the providers allow
	// Held reports whether this process still owns the work. It is called before each request is sent: a process that was suspended does
	// not know yet that another one has taken the work over. Nil: it always owns the work.
	Held func() bool
	// Urgent work has priority within a scope: it takes the slots for which other work waits.
	Urgent bool
	// Log is a logger that names the backlog. Nil: the Dispatcher's logger is used.
	Log *slog.Logger
}
