// Package sink brings an app's events to where they are counted: it follows the event log in batches, keeps how far it came beside the log,
// and hands each batch over until it is taken. A batch that was under way when a server ended is handed over once more as it was. A kind of
// sink knows one kind of place: it has a folder of its own.
package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/sending/push"
)

// Errors that callers tell apart. Wrapped, never bare.
var (
	// ErrUnknown says that there is no such kind of sink.
	ErrUnknown = errors.New("no such sink")
	// ErrNone says that the app has no sink of that kind.
	ErrNone = errors.New("sink is not set up")
)

// Sink is where events of an app go. Its kind names it: an app has one of each.
type Sink struct {
	App       string
	Kind      string
	Values    setting.Values // of the kind's fields
	Backfill  bool           // it begins with all that the log has, instead of with what happens after it was made
	From      uint64         // else it begins after this event; 0: after the newest when a server first writes to it
	Enabled   bool
	Private   bool // may lead to private addresses, because it was set by who owns the data folder
	CreatedAt time.Time
	UpdatedAt time.Time
}

func (s *Sink) same(o *Sink) bool {
	return s.Backfill == o.Backfill && s.From == o.From && s.Enabled == o.Enabled && s.Private == o.Private && s.CreatedAt.Equal(o.CreatedAt) &&
		s.UpdatedAt.Equal(o.UpdatedAt) && s.Values.Equal(o.Values)
}

// Store keeps sinks, by kind.
type Store = setting.Store[Sink]

// Writer takes events.
type Writer interface {
	// Write takes a batch as a whole: after an error it may have been taken, and the same batch may come once more, which counts once. A
	// *push.RetryError is tried again, a *StopError is not until somebody sets the sink again.
	Write(ctx context.Context, evs []event.Event) error
}

// Kind is one kind of sink: its own fields, and how its writer is made.
type Kind interface {
	setting.Kind // Check sees all values
	// Open makes a writer. It connects with the first batch.
	Open(t Target) (Writer, error)
}

// Target is what a sink leads to.
type Target struct {
	Values  setting.Values // secrets included
	Private bool           // private addresses may be dialled
}

// StopError says that a batch will never be taken as things are: a wrong password, a table of another shape.
type StopError struct {
	Reason string
	Plain  string // for the log: without the database's words; empty: Reason has none
}

func (e *StopError) Error() string { return e.Reason }

// Progress is how far a sink has come.
type Progress struct {
	Cursor  uint64    `json:"cursor"`            // newest event that is there
	Upto    uint64    `json:"upto,omitempty"`    // last event of the batch that is under way; no later than Cursor: none is
	Written uint64    `json:"written"`           // events since the sink was made
	Last    time.Time `json:"last,omitzero"`     // when a batch was taken last
	Made    time.Time `json:"made,omitzero"`     // CreatedAt of the sink: one that was made later begins anew
	Asked   time.Time `json:"asked,omitzero"`    // UpdatedAt of the sink when it stopped
	Stopped string    `json:"stopped,omitempty"` // why nothing is written until somebody sets the sink again

	Gap        Gap    `json:"gap,omitzero"`
	Gaps       uint64 `json:"gaps,omitempty"`       // times that the log had deleted what was not there yet
	Reconciled uint64 `json:"reconciled,omitempty"` // events of Written that were made anew for that
}

// Gap is a part of the log that was deleted before the sink had it, while its events are made anew. The zero value is none.
type Gap struct {
	Upto  uint64 `json:"upto"`            // newest event that was deleted
	Place int64  `json:"place,omitempty"` // how far the mailboxes have been looked through
	Made  uint64 `json:"made,omitempty"`  // events so far
}

// Past makes events anew that the log has deleted.
type Past interface {
	// Gone is the newest event that was deleted; 0: none was. All older ones are deleted too.
	Gone(ctx context.Context) (uint64, error)
	// Between lists events of an app that happened after one time and not after another: those of a slice of copies, behind a place, of
	// which the first is 0. next is the place to go on from; 0: that was all.
	Between(ctx context.Context, app string, after, upto time.Time, place int64) (evs []event.Event, next int64, err error)
}

// ReadProgress reads the progress of a sink as a store has it, which is JSON; nil where there is none yet.
func ReadProgress(app, kind, stored string) (*Progress, error) {
	if stored == "" {
		return nil, nil
	}
	p := &Progress{}
	if err := json.Unmarshal([]byte(stored), p); err != nil {
		return nil, fmt.Errorf("app %s: progress of sink %s is damaged", app, kind)
	}
	return p, nil
}

// begin is the progress of a sink as it is now. p is nil where there is none.
func (p *Progress) begin(s *Sink, newest uint64) Progress {
	if p == nil || !p.Made.Equal(s.CreatedAt) {
		fresh := Progress{Cursor: newest, Made: s.CreatedAt}
		switch {
		case s.Backfill:
			fresh.Cursor = 0
		case s.From > 0:
			fresh.Cursor = s.From
		}
		return fresh
	}
	now := *p
	if !p.Asked.Equal(s.UpdatedAt) {
		now.Stopped = ""
	}
	return now
}

// ProgressStore keeps progress, with the events. Writes by a former owner are refused.
type ProgressStore interface {
	// OwnSinkProgress makes the caller the owner of a sink's progress, with an epoch greater than all before, and reads it; nil: none.
	OwnSinkProgress(ctx context.Context, app, kind string) (epoch int64, p *Progress, err error)
	// SaveSinkProgress fails with ErrFormer if there is another owner by now.
	SaveSinkProgress(ctx context.Context, app, kind string, epoch int64, p *Progress) error
	// SinkProgress reads the progress of a sink; nil: none.
	SinkProgress(ctx context.Context, app, kind string) (*Progress, error)
}

// ErrFormer says that another server writes to the sink now.
var ErrFormer = errors.New("another server writes to the sink")

// again is how long to wait after a batch was not taken for so many times.
func again(failures int, err error) time.Duration {
	wait := min(retryLeast<<min(failures, 10), retryMost)
	var retry *push.RetryError
	if errors.As(err, &retry) {
		wait = max(wait, retry.After)
	}
	return wait
}

func stopped(err error) (reason string, is bool) {
	var stop *StopError
	if errors.As(err, &stop) {
		return stop.Reason, true
	}
	return "", false
}
