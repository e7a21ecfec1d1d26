package scenario

import (
	"context"
	"fmt"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
)

const (
	// away is the number of recipients where nobody is online: so many that no mailbox is filled.
	away = 10_000
	// batchLines is the number of publishes of a batch over HTTP: as many as a source stores together.
	batchLines = 1000
	// looking is the interval at which it is looked whether a source has stored all: often enough to measure, seldom enough to cost little.
	looking = 20 * time.Millisecond
)

// emits is the SQL that emits the message of row i to one of the recipients who are away.
func (s *Sources) emits(prefix string) string {
	return fmt.Sprintf(`pg_logical_emit_message(true, 'godwit.%s', '{"to":"%s' || lpad((i %% %d)::text, 7, '0') || '","data":{"pad":"' || repeat('x', %d) || '"}}')`,
		testbed.App, prefix, away, max(s.Size-len(`{"pad":""}`), 0))
}

// cost measures the server's CPU time for transactions of one row each that wait when the source begins to read, beside the same publishes over
// HTTP in batches as large as the source's. All are stored, and nobody is online.
func (s *Sources) cost(ctx context.Context, r *report.Result, x *publisherDB, run int) error {
	if s.Rows == 0 {
		return nil
	}
	var byRow, byHTTP float64
	for _, half := range turn(run,
		func() (err error) { byRow, err = s.rowCost(ctx, r, x); return err },
		func() (err error) { byHTTP, err = s.batchCost(ctx, x); return err },
	) {
		if err := half(); err != nil {
			return err
		}
	}
	const group = "transactions of one row that wait"
	r.Add(group, "server CPU a row", "µs", byRow)
	r.Add(group, "server CPU a publish over HTTP in batches of 1,000", "µs", byHTTP)
	r.Add(group, "server CPU a row beyond publishing", "µs", byRow-byHTTP)
	return nil
}

func (s *Sources) rowCost(ctx context.Context, r *report.Result, x *publisherDB) (micros float64, err error) {
	s.Testbed.Say("committing %d transactions", s.Rows)
	err = x.db.Exec(ctx, fmt.Sprintf(`DO $$ BEGIN PERFORM set_config('synchronous_commit', 'off', false);
FOR i IN 1..%d LOOP PERFORM %s; COMMIT; END LOOP; END $$`, s.Rows, s.emits(prefix())))
	if err != nil {
		return 0, err
	}
	before, err := x.atRest(ctx)
	if err != nil {
		return 0, err
	}
	pg, err := x.pg.Spent(ctx)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := x.resume(ctx, logSource); err != nil {
		return 0, err
	}
	if err := x.await(ctx, logSource, looking, func(v *sourceView) bool { return v.Counts.Stored >= int64(s.Rows) }); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	after, err := x.atRest(ctx)
	if err != nil {
		return 0, err
	}
	now, err := x.pg.Spent(ctx)
	if err != nil {
		return 0, err
	}
	const group = "transactions of one row that wait"
	r.Add(group, "rows", "/s", float64(s.Rows)/took.Seconds())
	r.Add(group, "PostgreSQL CPU a row, of reading", "µs", now.Since(pg).CPU.Seconds()*1e6/float64(s.Rows))
	return (after.CPU - before.CPU).Seconds() * 1e6 / float64(s.Rows), x.pause(ctx, logSource)
}

func (s *Sources) batchCost(ctx context.Context, x *publisherDB) (micros float64, err error) {
	s.Testbed.Say("publishing over HTTP in batches")
	w, err := x.NewWorker(ctx)
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	_, err = w.Call(ctx, worker.Request{Publishers: &loadgen.PublishConfig{
		Targets: x.Targets(), Via: loadgen.ViaBatch, Publishers: 1, Size: s.Size, Prefix: prefix(), Recipients: away, Batch: batchLines,
	}})
	if err != nil {
		return 0, err
	}
	before, err := x.atRest(ctx)
	if err != nil {
		return 0, err
	}
	reply, err := w.Call(ctx, worker.Request{Publish: &worker.Publish{For: s.For}})
	if err != nil {
		return 0, err
	}
	after, err := x.atRest(ctx)
	return (after.CPU - before.CPU).Seconds() * 1e6 / float64(max(reply.Published.Accepted, 1)), err
}

// A server rests when it used at most restMost in restLook. It may store in other forms for a while what it has just taken.
const (
	restLook     = 500 * time.Millisecond
	restMost     = 20 * time.Millisecond
	restPatience = 15 * time.Second
)

// atRest waits until the server rests, and reads what it has used so far.
func (x *publisherDB) atRest(ctx context.Context) (u meter.Usage, err error) {
	for until := time.Now().Add(restPatience); ; {
		before := u
		if u, err = meter.Read(x.Servers[0].PID); err != nil || before.CPU > 0 && u.CPU-before.CPU <= restMost || time.Now().After(until) {
			return u, err
		}
		if err := wait(ctx, restLook); err != nil {
			return u, err
		}
	}
}

// bulk measures how fast the messages of one transaction are stored, from the commit's return on.
func (s *Sources) bulk(ctx context.Context, r *report.Result, x *publisherDB, _ int) (err error) {
	if s.Bulk == 0 {
		return nil
	}
	if err := x.resume(ctx, logSource); err != nil {
		return err
	}
	s.Testbed.Say("committing %d messages at once", s.Bulk)
	before, err := meter.Read(x.Servers[0].PID)
	if err != nil {
		return err
	}
	if err := x.db.Exec(ctx, fmt.Sprintf("SELECT count(%s) FROM generate_series(1, %d) i", s.emits(prefix()), s.Bulk)); err != nil {
		return err
	}
	begun := time.Now()
	if err := x.await(ctx, logSource, looking, func(v *sourceView) bool { return v.Counts.Stored >= int64(s.Bulk) }); err != nil {
		return err
	}
	took := time.Since(begun)
	after, err := meter.Read(x.Servers[0].PID)
	if err != nil {
		return err
	}
	const group = "one transaction of many messages"
	r.Add(group, "messages stored", "/s", float64(s.Bulk)/took.Seconds())
	r.Add(group, "server CPU a message", "µs", (after.CPU-before.CPU).Seconds()*1e6/float64(s.Bulk))
	r.Add(group, "server memory, most so far", "MB", float64(after.Peak)/mb)
	return x.pause(ctx, logSource)
}

const (
	rowBytes  = 100_000                // of the other database
	otherRows = 10                     // in a transaction: one that runs keeps the log by itself
	readSlot  = 200 * time.Millisecond // how often the slot is looked at
)

// kept measures how much of the log the source's slot makes PostgreSQL keep while another database writes and nothing is published.
func (s *Sources) kept(ctx context.Context, r *report.Result, x *publisherDB, _ int) error {
	if s.Other == 0 {
		return nil
	}
	if err := x.resume(ctx, logSource); err != nil {
		return err
	}
	other, err := x.pg.NewDatabase(ctx)
	if err != nil {
		return err
	}
	if err := other.Exec(ctx, "CREATE TABLE other (a text); ALTER TABLE other ALTER a SET STORAGE EXTERNAL"); err != nil {
		return err
	}
	s.Testbed.Say("another database writes %d MB", s.Other)
	wrote := make(chan error, 1)
	begun := time.Now()
	go func() { // ends with the writing, which is waited for
		var err error
		for left := s.Other * mb; left > 0 && err == nil; left -= rowBytes * otherRows {
			err = other.Exec(ctx, fmt.Sprintf("INSERT INTO other SELECT repeat('x', %d) FROM generate_series(1, %d)", rowBytes, min(otherRows, left/rowBytes+1)))
		}
		wrote <- err
	}()
	var confirmed, restart int64
	for {
		var c, k int64
		err := x.db.Row(ctx, `SELECT (pg_current_wal_lsn() - confirmed_flush_lsn)::bigint, (pg_current_wal_lsn() - restart_lsn)::bigint
FROM pg_replication_slots WHERE slot_name = 'godwit_`+testbed.App+`'`, &c, &k)
		confirmed, restart = max(confirmed, c), max(restart, k)
		select {
		case failed := <-wrote:
			if err == nil {
				err = failed
			}
			const group = "another database writes"
			r.Add(group, "written", "MB/s", float64(s.Other)/time.Since(begun).Seconds())
			r.Add(group, "log not confirmed, most", "MB", float64(confirmed)/mb)
			r.Add(group, "log kept, most", "MB", float64(restart)/mb)
			if err == nil {
				err = x.pause(ctx, logSource)
			}
			return err
		case <-time.After(readSlot):
		}
		if err != nil {
			return fmt.Errorf("look at the slot: %w", err) // the writer ends with ctx
		}
	}
}
