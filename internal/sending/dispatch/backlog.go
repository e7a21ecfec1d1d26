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
	// Due reads up to limit due pending deliveries of a channel, longest due first.
	Due(ctx context.Context, ch push.Channel, now time.Time, limit int) ([]Delivery, error)
	// NextDue returns when the next pending delivery of a channel becomes due; zero: only held ones are left, if any. ended:
	// no deliveries will be added any more. Once they are settled, the job is done.
	NextDue(ctx context.Context, ch push.Channel) (at time.Time, ended bool, err error)
	// Window is when a delivery may leave: not before from, nor at until or later, when it expires. It is asked before
	// each attempt and must not wait for anything.
	Window(d *Delivery, now time.Time) (from, until time.Time)
	// Claim marks deliveries as being sent and returns those that it has marked, unchanged. It is called last before they
	// leave: it leaves out those that must no longer be sent, and settles them if nobody else does. If it returns none, the
	// job is about to be stopped.
	Claim(ctx context.Context, ds []Delivery, now time.Time) (claimed []Delivery, err error)
	// Request renders the message. Its ExpiresAt is the until of Window: no attempt is planned beyond it.
	Request(d *Delivery, now time.Time) push.Request
	// Finish writes the results of deliveries, claimed ones and such as need not be sent, of one or several channels. It
	// disables endpoints that are gone and updates those that moved.
	Finish(ctx context.Context, results []Result, now time.Time) error
}

// Work is a backlog and how to send it.
type Work struct {
	App      string
	Channels []push.Channel
	Backlog  Backlog
	Rate     float64 // a second, all channels together; 0: as fast as the providers let through
	// Held reports whether the work is still this process's own. It is called before each request leaves: a process that was
	// suspended does not know yet that another one has taken the work over. Nil: it always is.
	Held func() bool
	// Urgent work goes first within a scope: it takes the turns that work which is not urgent waits for.
	Urgent bool
	// Log is a logger that names the backlog. Nil: the Dispatcher's is used.
	Log *slog.Logger
}
