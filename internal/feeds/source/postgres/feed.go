package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"godwit.dev/godwit/internal/feeds/source"
)

// feed reads the log of a database.
type feed struct {
	t           *source.Target
	log         *slog.Logger
	tables      []Table
	slot        string
	publication string
	own         bool // the source makes the publication
	c           *conn
	system      system
	at          *position // nil: the source was never connected
	types       map[uint32]own
}

var _ source.Feed = (*feed)(nil)

// open connects to the server. Everything else is done by Run, which can say what it does.
func open(ctx context.Context, t source.Target, tables []Table) (*feed, error) {
	f := &feed{t: &t, log: t.Log, tables: tables, slot: slot(&t), types: make(map[uint32]own)}
	f.publication, f.own = publication(&t)
	var err error
	if f.at, err = readPosition(&t); err != nil {
		return nil, err
	}
	if f.c, err = connect(ctx, &t, true); err != nil {
		return nil, err
	}
	if f.system, err = f.c.identify(ctx); err == nil {
		err = f.checkServer(ctx)
	}
	if err != nil {
		f.c.close()
		return nil, err
	}
	return f, nil
}

func (f *feed) checkServer(ctx context.Context) error {
	level, _, err := f.c.one(ctx, "SHOW wal_level")
	if err == nil && level != "logical" {
		err = fmt.Errorf("wal_level of PostgreSQL is %s: ALTER SYSTEM SET wal_level = logical, and restart it", level)
	}
	return err
}

// Finding implements source.Feed.
func (f *feed) Finding() string { return "log" }

// Close implements source.Feed.
func (f *feed) Close() { f.c.close() }

// Run implements source.Feed.
func (f *feed) Run(ctx context.Context, to source.Emitter) error {
	if err := f.prepare(ctx, to); err != nil {
		return err
	}
	return f.stream(ctx, to)
}

// prepare makes or finds the slot and the publication, and copies what was there before.
func (f *feed) prepare(ctx context.Context, to source.Emitter) error {
	s, err := f.c.slot(ctx, f.slot)
	if err != nil {
		return err
	}
	if f.t.Resync || f.at == nil && !s.exists || f.at != nil && f.at.Making {
		return f.begin(ctx, to, s)
	}
	if err := f.checkSlot(s); err != nil {
		return err
	}
	if f.at == nil { // somebody has made the slot for this source
		f.at = &position{LSN: s.confirmed}
	}
	if err := f.follow(ctx, to); err != nil {
		return err
	}
	if err := f.publish(ctx, false); err != nil {
		return err
	}
	return f.copyOn(ctx, to)
}

// checkSlot refuses a slot that cannot have all changes since the position of the source.
func (f *feed) checkSlot(s slotState) error {
	switch {
	case f.at != nil && f.at.System != f.system.id:
		return fmt.Errorf("this is another server than before: what the former one committed after %s may be missing; godwit source resync %s reads this one anew", f.at.LSN, f.t.Name)
	case !s.exists:
		return f.lost("is gone")
	case s.lost:
		return f.lost("is lost, since its log grew above max_slot_wal_keep_size")
	case f.at != nil && f.at.Bound > 0 && s.confirmed > f.at.Bound:
		return f.lost(fmt.Sprintf("is at %s, which this source has not confirmed: somebody has made it anew or moved it on", s.confirmed))
	}
	return nil
}

func (f *feed) lost(how string) error {
	return fmt.Errorf("the replication slot %s %s: what was committed after %s may be missing; godwit source resync %s makes another and reads the tables anew", f.slot, how, f.at.LSN, f.t.Name)
}

// begin makes the slot: for the first time, or anew.
func (f *feed) begin(ctx context.Context, to source.Emitter, s slotState) error {
	former := position{}
	if f.at != nil {
		former = *f.at
	}
	f.at = &position{System: f.system.id, Timeline: f.system.timeline, Read: former.Read, Shift: former.Shift, Slot: f.slot, Making: true, Groups: former.Groups}
	if err := to.Note(ctx, f.at.encode()); err != nil {
		return err
	}
	if s.exists {
		if err := f.c.dropSlot(ctx, f.slot); err != nil {
			return err
		}
	}
	if err := f.publish(ctx, true); err != nil {
		return err
	}
	to.Detail("making the replication slot " + f.slot + ", for which PostgreSQL waits until all transactions that run have ended")
	at, snapshot, err := f.c.makeSlot(ctx, f.slot)
	if err != nil {
		return err
	}
	to.Detail("")
	f.at.above(at, &former)
	f.at.LSN, f.at.Read, f.at.Bound, f.at.Making = at, at, at, false
	copies := f.copies() && (f.t.Resync || f.t.Values.Bool(FieldSnapshot))
	if copies {
		f.at.Copy = &copying{LSN: at}
	}
	if err := to.Note(ctx, f.at.encode()); err != nil {
		return err
	}
	if f.t.Resync {
		if err := f.forget(ctx, to); err != nil {
			return err
		}
		if err := to.Resynced(ctx); err != nil {
			return err
		}
	}
	if copies {
		return f.copyTables(ctx, to, snapshot)
	}
	return nil
}

// forget makes all objects unknown that the source may have announced.
func (f *feed) forget(ctx context.Context, to source.Emitter) error {
	for _, group := range f.at.Groups {
		if err := to.Unknown(ctx, group, 0); err != nil {
			return err
		}
	}
	return nil
}

// follow notices that another server has taken over. If that one lacks commits that were read here, versions of objects are too high, so
// that they become unknown.
func (f *feed) follow(ctx context.Context, to source.Emitter) error {
	former := f.at.Timeline
	if f.at.System == "" {
		f.at.System = f.system.id
	}
	f.at.Timeline = f.system.timeline
	if former == 0 || former == f.system.timeline {
		return to.Note(ctx, f.at.encode())
	}
	read := f.at.Read
	end, known, err := f.c.end(ctx, f.system.timeline, former)
	if err != nil {
		return err
	}
	if !known || end < read {
		if err := f.forget(ctx, to); err != nil {
			return err
		}
		before := *f.at
		f.at.Read = min(end, read)
		f.at.above(f.at.Read, &before)
		f.log.WarnContext(ctx, "another server has taken over, which lacks commits that were read: objects are unknown until they change", "timeline", f.system.timeline, "read", read.String(), "branched_at", end.String())
		to.Detail(fmt.Sprintf("timeline %d began at %s, and commits up to %s may have been read before: objects are unknown until they change, or until godwit source resync %s", f.system.timeline, end, read, f.t.Name))
	}
	return to.Note(ctx, f.at.encode())
}

// run runs a statement. right is what to do if the user may not.
func (f *feed) run(ctx context.Context, sql, right string) error {
	err := f.c.exec(ctx, sql)
	if err != nil {
		return fmt.Errorf("%s: %w", sql, needs(err, right))
	}
	return nil
}

// watch returns when something makes the stream useless that PostgreSQL would only tell with the next change.
func (f *feed) watch(ctx context.Context, c *conn) error {
	_, exists, err := c.one(ctx, "SELECT 1 FROM pg_publication WHERE pubname = "+literal(f.publication))
	if err != nil {
		return err
	}
	if !exists {
		return fmt.Errorf("the publication %s is gone: changes of tables since then cannot be read; make it anew, and godwit source resync %s", f.publication, f.t.Name)
	}
	s, err := c.slot(ctx, f.slot)
	if err != nil {
		return err
	}
	if !s.exists {
		return f.lost("is gone")
	}
	if s.lost {
		return f.lost("is lost, since its log grew above max_slot_wal_keep_size")
	}
	missing, err := f.missing(ctx, c)
	return errors.Join(err, f.unpublished(missing))
}

var errSilent = errors.New("PostgreSQL has said nothing for 30 seconds")
