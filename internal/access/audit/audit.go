// Package audit records the actions of people on the web page and the changes of back ends over the API: who, when, from where, the action,
// its object, and its outcome. Each action is recorded once, in the tables of routes, which every request passes.
package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access/signin"
)

// Limits of an app's audit log.
const (
	MaxAge  = 90 * 24 * time.Hour
	MaxRows = 100_000
	// trimEach is the number of new entries after which the oldest are deleted, so an app may have up to trimEach more than MaxRows.
	trimEach = 256
)

// Ways in which actions come.
const (
	Page = "page"
	API  = "api"
)

// Outcome is the result of an action. Invalid requests change nothing and are not recorded.
type Outcome string

// Outcomes.
const (
	Done    Outcome = "done"
	Refused Outcome = "refused" // who asked may not
	Failed  Outcome = "failed"  // the server could not complete the action
)

// Entry is an action that somebody carried out or tried. Note truncates and cleans the texts; none may contain a secret.
type Entry struct {
	ID      int64 // grows
	App     string
	At      time.Time
	By      string // public id of a key, or the name of a person who signed in through a provider
	Way     string
	Address string
	Action  string // the action's name, like campaign.start
	Object  string // may be empty
	Outcome Outcome
}

// Filter selects entries; the zero value: all.
type Filter struct {
	Before       int64 // only entries with a lower id; 0: begin with the newest
	Since, Until time.Time
	Action, By   string // all of the text
}

// Store keeps entries.
type Store interface {
	// AddEntry stores an entry and sets its id. It fails with access.ErrUnknownApp if the app does not exist.
	AddEntry(ctx context.Context, d *Entry) error
	// Entries lists an app's entries, newest first.
	Entries(ctx context.Context, app string, f Filter, limit int) ([]Entry, error)
	// TrimEntries deletes an app's entries from before a time, and the oldest beyond most.
	TrimEntries(ctx context.Context, app string, before time.Time, most int) error
	// RenameObject replaces an object's name in an app's entries whose actions begin with a prefix.
	RenameObject(ctx context.Context, app, actions, from, to string) error
}

// Log is what was done.
type Log struct {
	store Store
	now   func() time.Time
	log   *slog.Logger

	mu      sync.Mutex
	noted   map[string]int          // entries by app, for trimming
	refused map[[3]string]time.Time // time of the last recorded refusal, by app, person and action

	entries, lost prometheus.Counter
}

// New returns an audit log that writes to a store.
func New(store Store, now func() time.Time, log *slog.Logger) *Log {
	return &Log{
		store: store, now: now, log: log, noted: make(map[string]int), refused: make(map[[3]string]time.Time),
		entries: prometheus.NewCounter(prometheus.CounterOpts{Name: "godwit_audit_deeds_total", Help: "Deeds of people and back ends that the audit log took."}),
		lost:    prometheus.NewCounter(prometheus.CounterOpts{Name: "godwit_audit_lost_total", Help: "Deeds that could not be written to the audit log; the server's log has them."}),
	}
}

// Describe implements prometheus.Collector.
func (l *Log) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(l, ch) }

// Collect implements prometheus.Collector.
func (l *Log) Collect(ch chan<- prometheus.Metric) { l.entries.Collect(ch); l.lost.Collect(ch) }

// eraseAction is the action of erasing a recipient.
const eraseAction = "recipient.erase"

// Erased returns the name of an erased recipient in the audit log. It is computed from the former name, so that the entries can be found,
// and does not reveal it.
func Erased(app, recipient string) string {
	sum := sha256.Sum256([]byte(app + "\n" + recipient))
	return "erased:" + hex.EncodeToString(sum[:8])
}

// ForgetRecipient replaces the name of an erased recipient in an app's entries.
func (l *Log) ForgetRecipient(ctx context.Context, app, recipient string) error {
	if err := l.store.RenameObject(ctx, app, "recipient.", recipient, Erased(app, recipient)); err != nil {
		return fmt.Errorf("take an erased recipient out of the audit log of app %s: %w", app, err)
	}
	return nil
}

const (
	writeWithin = 5 * time.Second // the action's answer waits until then
	refusedEach = time.Minute     // within this time, a person's refusals for the same action are recorded once, so that repeated tries do not displace other entries
	maxRefused  = 10_000
)

// Note writes an entry, and returns when it is on disk. The action itself is already done. If the entry cannot be written, it is counted as
// lost and the server's log reports it: a full disk must not prevent actions that free space.
func (l *Log) Note(ctx context.Context, d Entry) {
	d.At = l.now().UTC().Truncate(time.Millisecond)
	for _, text := range []*string{&d.By, &d.Address, &d.Object} {
		*text = signin.Clean(*text)
	}
	if d.Action == eraseAction && d.Outcome == Done {
		d.Object = Erased(d.App, d.Object)
	}
	if d.Outcome == Refused && !l.firstRefusal(&d) {
		return
	}
	// The action is done, even if its client no longer waits for the answer.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), writeWithin, fmt.Errorf("not written in %s", writeWithin))
	defer cancel()
	err := l.store.AddEntry(ctx, &d)
	if err == nil {
		l.entries.Inc()
		err = l.trim(ctx, d.App)
	} else {
		l.lost.Inc()
	}
	if err != nil {
		l.log.ErrorContext(ctx, "the audit log could not be written", "error", err, "app", d.App, "by", d.By, "way", d.Way, "address", d.Address, "deed", d.Action, "object", d.Object, "outcome", string(d.Outcome))
	}
}

func (l *Log) firstRefusal(d *Entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	who := [3]string{d.App, d.By, d.Action}
	if at, ok := l.refused[who]; ok && d.At.Sub(at) < refusedEach {
		return false
	}
	if len(l.refused) >= maxRefused {
		clear(l.refused)
	}
	l.refused[who] = d.At
	return true
}

// trim deletes entries that are too old or too many: after an app's first action, and then after each trimEach actions.
func (l *Log) trim(ctx context.Context, app string) error {
	l.mu.Lock()
	due := l.noted[app]%trimEach == 0
	l.noted[app]++
	l.mu.Unlock()
	if !due {
		return nil
	}
	return l.store.TrimEntries(ctx, app, l.now().Add(-MaxAge), MaxRows)
}

// List returns an app's entries, newest first.
func (l *Log) List(ctx context.Context, app string, f Filter, limit int) ([]Entry, error) {
	if oldest := l.now().Add(-MaxAge); f.Since.Before(oldest) {
		f.Since = oldest
	}
	list, err := l.store.Entries(ctx, app, f, limit)
	if err != nil {
		return nil, fmt.Errorf("read the audit log of app %s: %w", app, err)
	}
	return list, nil
}
