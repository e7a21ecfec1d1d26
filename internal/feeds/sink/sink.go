// Package sink copies an app's events to an analytics database: it follows the event log in batches, saves its progress beside the log, and
// repeats each batch until the database accepts it. A batch that was under way when a server ended is written again unchanged. Each kind of
// sink supports one kind of database and has a folder of its own.
package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/sending/push"
)

// Errors that callers distinguish. Functions return them wrapped, never bare.
var (
	// ErrUnknown says that no kind of sink has this name.
	ErrUnknown = errors.New("no such sink")
	// ErrNone says that the app has no sink of that kind.
	ErrNone = errors.New("sink is not set up")
)

// Sink is a destination of an app's events. Its kind is its name: an app has at most one sink of each kind.
type Sink struct {
	App       string
	Kind      string
	Values    setting.Values // of the kind's fields
	Backfill  bool           // the sink begins with the oldest event in the log, instead of with the events after it was made
	From      uint64         // without Backfill, the sink begins after this event; 0: after the newest event when a server first writes to it
	Enabled   bool
	Private   bool // may connect to private addresses, because the owner of the data folder set it
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
	// Write stores a batch as a whole. After an error the batch may have been stored; it may be written once more, and still counts once.
	// After a *push.RetryError the caller repeats the batch, after a *StopError only when somebody has set the sink again.
	Write(ctx context.Context, evs []event.Event) error
}

// Kind is one kind of sink: its fields, and how to make its writer.
type Kind interface {
	setting.Kind // Check sees all values
	// Open makes a writer. It connects when the first batch is written.
	Open(t Target) (Writer, error)
}

// Target is the database that a sink writes to.
type Target struct {
	Values  setting.Values   // secrets included
	Targets urlguard.Targets // that may be dialled
}

// StopError says that the sink will refuse this batch as things are, for example because of a wrong password or a table of another shape.
type StopError struct {
	Reason string
	Plain  string // for the log: without the database's words; empty: Reason contains none
}

func (e *StopError) Error() string { return e.Reason }

// Progress records how far a sink has written the events.
type Progress struct {
	Cursor  uint64    `json:"cursor"`            // newest event that is there
	Upto    uint64    `json:"upto,omitempty"`    // last event of the batch that is under way; if it is not after Cursor, no batch is under way
	Written uint64    `json:"written"`           // number of events written since the sink was made
	Last    time.Time `json:"last,omitzero"`     // when a batch was last accepted
	Made    time.Time `json:"made,omitzero"`     // CreatedAt of the sink; a sink that was made later starts with new progress
	Asked   time.Time `json:"asked,omitzero"`    // UpdatedAt of the sink at the time it stopped
	Stopped string    `json:"stopped,omitempty"` // why nothing is written until somebody sets the sink again

	Gap        Gap    `json:"gap,omitzero"`
	Gaps       uint64 `json:"gaps,omitempty"`       // how often the log had deleted events that the sink had not written
	Reconciled uint64 `json:"reconciled,omitempty"` // events of Written that were recreated after that
}

// Gap is a part of the log that was deleted before the sink wrote it, while its events are being recreated. The zero value means that there
// is none.
type Gap struct {
	Upto  uint64 `json:"upto"`            // newest event that was deleted
	Place int64  `json:"place,omitempty"` // how far the mailboxes have been searched
	Made  uint64 `json:"made,omitempty"`  // events so far
}

// Past recreates events that the log has deleted.
type Past interface {
	// Gone is the id of the newest deleted event; all older ones are deleted too. 0: none was deleted.
	Gone(ctx context.Context) (uint64, error)
	// Between recreates an app's events that happened after the time after and not later than upto. Each call examines one slice of the
	// copies, beginning at place, which is 0 for the first slice. next is the place of the following slice; 0: there are no more copies.
	Between(ctx context.Context, app string, after, upto time.Time, place int64) (evs []event.Event, next int64, err error)
}

// ReadProgress parses a sink's progress, which stores hold as JSON; nil if stored is empty.
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

// begin returns the progress of a sink that starts now. p is the saved progress, or nil.
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
	// OwnSinkProgress makes the caller the owner of a sink's progress, with an epoch greater than all earlier ones, and reads the progress;
	// nil if there is none.
	OwnSinkProgress(ctx context.Context, app, kind string) (epoch int64, p *Progress, err error)
	// SaveSinkProgress fails with ErrFormer if the sink has another owner by now.
	SaveSinkProgress(ctx context.Context, app, kind string, epoch int64, p *Progress) error
	// SinkProgress reads the progress of a sink; nil if there is none.
	SinkProgress(ctx context.Context, app, kind string) (*Progress, error)
}

// ErrFormer says that another server owns the sink now.
var ErrFormer = errors.New("another server writes to the sink")

// again is the wait after so many failures of a batch in a row.
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
