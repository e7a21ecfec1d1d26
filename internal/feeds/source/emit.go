package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// emitter publishes the entries of a feed while the feed is connected.
type emitter struct {
	*reader
	position position
	repeats  repeats
	stuck    atomic.Bool // an entry cannot be stored at the moment
}

// Caught implements Emitter.
func (e *emitter) Caught(ctx context.Context) {
	e.catchesUp(ctx)
	if !e.stuck.Load() {
		e.works(ctx)
	}
}

// piece is an entry, or a member of one that is a list.
type piece struct {
	Entry
	of     int            // index of the entry
	commit object.Version // of the entry, whose put has no version of its own; 0: none
}

// Emit implements Emitter.
func (e *emitter) Emit(ctx context.Context, entries []Entry) ([]Outcome, error) {
	pieces := make([]piece, 0, len(entries))
	for i := range entries {
		pieces = e.pieces(pieces, &entries[i], i)
	}
	outcomes := make([]Outcome, len(pieces))
	ended := 0
	for begin := 0; begin < len(pieces); {
		if err := e.endCommits(ctx, entries[ended:pieces[begin].of]); err != nil {
			return nil, err
		}
		ended = pieces[begin].of
		end := begin + 1 // consecutive publishes are stored in one call, except behind the end of a commit for which puts wait
		for end < len(pieces) && pieces[begin].published() && pieces[end].published() && (len(e.repeats.waiting) == 0 || pieces[end].of == ended) {
			end++
		}
		if err := e.settle(ctx, pieces[begin:end], outcomes[begin:end]); err != nil {
			return nil, err
		}
		begin = end
	}
	if err := e.endCommits(ctx, entries[ended:]); err != nil {
		return nil, err
	}
	return e.sum(ctx, entries, pieces, outcomes)
}

// endCommits stores what waits for the end of a commit, if the commit ends with one of these entries.
func (e *emitter) endCommits(ctx context.Context, entries []Entry) error {
	for i := range entries {
		if entries[i].Last && entries[i].Version == e.repeats.version {
			if err := e.endCommit(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// sum counts the outcomes of pieces, keeps those in quarantine that have a text, and returns the outcome of each entry: the worst of its pieces.
func (e *emitter) sum(ctx context.Context, entries []Entry, pieces []piece, outcomes []Outcome) ([]Outcome, error) {
	all := make([]Outcome, len(entries))
	var counts Counts
	var aside []SetAside
	for i, o := range outcomes {
		p := &pieces[i]
		counts.count(o.Fate)
		if one := &all[p.of]; one.Fate == "" || severity(o.Fate) > severity(one.Fate) {
			*one = o
		}
		if o.Fate != Quarantined {
			continue
		}
		e.note(ctx, p.stream(), o.Err)
		if p.text() != nil {
			aside = append(aside, e.aside(&p.Entry, o.Err))
		}
	}
	e.count(&counts)
	return all, e.keep(ctx, aside)
}

// pieces appends the pieces of an entry.
func (e *emitter) pieces(to []piece, entry *Entry, of int) []piece {
	if entry.Body == nil || entry.Wrong != nil {
		return append(to, piece{Entry: *entry, of: of, commit: entry.Version})
	}
	read, err := e.s.cfg.Read(entry.Body)
	if err != nil {
		bad := *entry
		bad.Wrong = err
		return append(to, piece{Entry: bad, of: of})
	}
	for i, one := range read {
		one.From, one.Stream, one.Text = entry.From, entry.Stream, entry.text()
		if d := one.Publish; d != nil && d.ID == "" && entry.ID != "" {
			if d.ID = entry.ID; len(read) > 1 {
				d.ID += "." + strconv.Itoa(i)
			}
		}
		p := piece{Entry: one, of: of}
		if put := one.Put; one.Delete != nil || put != nil && put.Version == 0 {
			p.commit = entry.Version
		}
		to = append(to, p)
	}
	return to
}

// text is the entry as the quarantine keeps it.
func (e *Entry) text() []byte {
	if e.Text != nil {
		return e.Text
	}
	return e.Body
}

func (e *Entry) stream() string {
	if e.Stream != "" {
		return e.Stream
	}
	return e.From
}

// object returns the put that a piece requests; nil: it requests none.
func (p *piece) object() *Put {
	put := p.Put
	if p.Delete != nil {
		put = &Put{Key: *p.Delete, Put: object.Put{Unknown: true}}
	}
	if put != nil && put.Unknown {
		put.Ordered = p.commit != 0
	}
	return put
}

// published reports whether an entry is a publish, or nothing valid.
func (e *Entry) published() bool { return e.Put == nil && e.Delete == nil && e.Message == nil }

// settle retries until every piece has an outcome: an entry that is not stored now exists only at the source.
func (e *emitter) settle(ctx context.Context, pieces []piece, outcomes []Outcome) error {
	first := &pieces[0]
	put := first.object()
	if put != nil && first.commit != 0 && first.Wrong == nil {
		waits, err := e.order(ctx, first.commit, put)
		if err != nil {
			return err
		}
		if outcomes[0] = waits; waits.Fate != "" {
			return nil
		}
	}
	return e.insist(ctx, func() (err error) {
		switch {
		case first.Wrong != nil && !first.published():
			outcomes[0] = Outcome{Quarantined, first.Wrong}
		case put != nil:
			outcomes[0], err = e.put(ctx, put)
		case first.Message != nil:
			outcomes[0], err = e.send(ctx, first)
		default:
			err = e.publish(ctx, pieces, outcomes)
		}
		return err
	})
}

// insist calls do again and again until it succeeds. Its only error is the end of ctx.
func (e *emitter) insist(ctx context.Context, do func() error) error {
	for again := retryLeast; ; again = min(2*again, retryMost) {
		err := do()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		e.stuck.Store(true)
		e.fails(ctx, fmt.Errorf("publish what came from %s: %w", e.source.Name, err))
		pause.For(ctx, again)
	}
	if e.stuck.CompareAndSwap(true, false) {
		e.works(ctx)
	}
	return nil
}

// publish decides the outcomes that are still open. Its error says why some remain open.
func (e *emitter) publish(ctx context.Context, pieces []piece, outcomes []Outcome) (err error) {
	now := e.s.cfg.Now()
	var drafts []*notification.Draft
	var at []int
	for i := range pieces {
		d := pieces[i].Publish
		switch {
		case outcomes[i].Fate != "":
		case d == nil:
			outcomes[i] = Outcome{Quarantined, pieces[i].Wrong}
		case !d.ExpiresAt.IsZero() && !d.ExpiresAt.After(now):
			outcomes[i].Fate = Expired
		default:
			if d.ExpiresAt.Sub(now) > notification.MaxTTL {
				d.ExpiresAt = now.Add(notification.MaxTTL) // what mailboxes keep at most
			}
			drafts, at = append(drafts, d), append(at, i)
		}
	}
	if len(drafts) == 0 {
		return nil
	}
	for i, r := range e.s.cfg.Publisher.Publish(ctx, e.source.App, drafts) {
		var failed error
		if outcomes[at[i]], failed = judge(&r); failed != nil {
			err = failed
		}
	}
	return err
}

// judge decides an entry's fate by the result of its publish: that of the copy that fares worst. After an error the entry must be published
// again.
func judge(r *delivery.Result) (worst Outcome, err error) {
	if r.Err != nil {
		return judgeCopy(false, r.Err)
	}
	for i := range r.Copies {
		one, err := judgeCopy(r.Copies[i].Duplicate, r.Copies[i].Err)
		if err != nil {
			return Outcome{}, err
		}
		if worst.Fate == "" || severity(one.Fate) > severity(worst.Fate) {
			worst = one
		}
	}
	return worst, nil
}

func judgeCopy(duplicate bool, failed error) (Outcome, error) {
	var bad *notification.FieldError
	switch {
	case failed == nil && duplicate:
		return Outcome{Fate: Duplicate}, nil
	case failed == nil:
		return Outcome{Fate: Stored}, nil
	case errors.As(failed, &bad) && bad.Field == "expires_at":
		return Outcome{Fate: Expired}, nil // the draft had not expired when publish checked it
	case errors.As(failed, &bad), errors.Is(failed, mailbox.ErrConflict):
		return Outcome{Quarantined, failed}, nil
	case errors.Is(failed, mailbox.ErrFull):
		return Outcome{Full, failed}, nil
	}
	return Outcome{}, failed
}

// severity orders fates from the best to the worst.
func severity(f Fate) int {
	return slices.Index([]Fate{Expired, Duplicate, Stored, Full, Quarantined}, f)
}

// put stores a version of an object. After an error it must be repeated.
func (e *emitter) put(ctx context.Context, p *Put) (Outcome, error) {
	_, changed, err := e.s.cfg.Objects.Put(ctx, e.source.App, p.Key, &p.Put)
	var bad *notification.FieldError
	switch {
	case errors.As(err, &bad):
		return Outcome{Quarantined, err}, nil
	case err != nil:
		return Outcome{}, err
	case !changed:
		return Outcome{Fate: Duplicate}, nil
	}
	return Outcome{Fate: Stored}, nil
}

// send passes a message to the present subscribers of its topic. After an error it must be repeated.
func (e *emitter) send(ctx context.Context, p *piece) (Outcome, error) {
	err := e.s.cfg.Topics.Publish(ctx, e.source.App, p.Message)
	var bad *notification.FieldError
	switch {
	case errors.As(err, &bad):
		return Outcome{Quarantined, err}, nil
	case errors.Is(err, topic.ErrUnavailable):
		return Outcome{}, err
	case err != nil:
		return Outcome{Quarantined, err}, nil
	}
	return Outcome{Fate: Stored}, nil
}

// SetAside implements Emitter.
func (e *emitter) SetAside(ctx context.Context, entry *Entry, why error) error {
	e.note(ctx, entry.stream(), why)
	e.count(&Counts{Quarantined: 1})
	return e.keep(ctx, []SetAside{e.aside(entry, why)})
}

func (e *emitter) aside(entry *Entry, why error) SetAside {
	text := entry.text()
	return SetAside{At: e.s.cfg.Now(), From: entry.From, Why: why.Error(), Text: text[:min(len(text), MaxSetAsideText)]}
}

func (e *emitter) keep(ctx context.Context, aside []SetAside) error {
	if len(aside) == 0 {
		return nil
	}
	return e.insist(ctx, func() error { return e.s.cfg.Records.SetAside(ctx, e.source.place(), aside) })
}

// pageOfObjects is how many objects are made unknown between two looks at the list.
const pageOfObjects = 500

// Unknown implements Emitter.
func (e *emitter) Unknown(ctx context.Context, group string, below object.Version) error {
	for after := ""; ; {
		var names []string
		err := e.insist(ctx, func() (err error) {
			names, after, err = e.s.cfg.Objects.Names(ctx, e.source.App, group, after, pageOfObjects)
			return err
		})
		if err != nil {
			return err
		}
		for _, name := range names {
			err := e.insist(ctx, func() error {
				_, _, err := e.s.cfg.Objects.Put(ctx, e.source.App, object.Key{Group: group, Object: name}, &object.Put{Unknown: true, Version: below, Ordered: below != 0})
				return err
			})
			if err != nil {
				return err
			}
		}
		if after == "" {
			return nil
		}
	}
}

// Note implements Emitter.
func (e *emitter) Note(ctx context.Context, at []byte) error {
	e.position.Feed = at
	return e.notePosition(ctx)
}

// Resynced implements Emitter.
func (e *emitter) Resynced(ctx context.Context) error {
	e.position.ResyncAt = e.source.ResyncAt
	return e.notePosition(ctx)
}

func (e *emitter) notePosition(ctx context.Context) error {
	text, err := json.Marshal(e.position)
	if err != nil {
		return err
	}
	return e.insist(ctx, func() error { return e.s.cfg.Records.Note(ctx, e.source.place(), text) })
}
