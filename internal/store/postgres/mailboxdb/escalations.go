package mailboxdb

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

var _ mailbox.Escalator = (*Store)(nil)

// hurryWithin limits Hurry's wait for the database: without it, the step still happens at its time.
const hurryWithin = 5 * time.Second

func (w *writes) escalate(o *open, n *notification.Notification, p *prepared) {
	c := &w.steps
	from := n.Due()
	c.recipient, c.pos, c.from = append(c.recipient, o.box.key), append(c.pos, o.pos), append(c.from, millis.Of(from))
	c.due, c.plan = append(c.due, millis.Of(from.Add(n.Steps[0].After))), append(c.plan, p.steps)
}

func (w *writes) endSteps(o *open) {
	c := &w.stepless
	c.recipient, c.pos = append(c.recipient, o.box.key), append(c.pos, o.pos)
}

// askSteps queues the insertion of the first steps of new copies.
func (t *transaction) askSteps(a *asking) {
	if c := &t.out.steps; len(c.pos) > 0 {
		a.ask(`INSERT INTO escalation (recipient, pos, step, due_at, from_at, steps)
			SELECT recipient, pos, 0, due, began, steps FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[]) AS q(recipient, pos, due, began, steps)`,
			nil, c.recipient, c.pos, c.due, c.from, c.plan)
	}
}

// askStepless queues the deletion of settled copies' next steps.
func (t *transaction) askStepless(a *asking) {
	if c := &t.out.stepless; len(c.pos) > 0 {
		a.ask(`DELETE FROM escalation e USING unnest($1::bigint[], $2::bigint[]) AS q(recipient, pos)
			WHERE e.recipient = ANY(ARRAY[q.recipient]) AND e.pos = q.pos`, nil, c.recipient, c.pos)
	}
}

// dueSteps returns the query for due steps. It skips rows whose copies are no longer open, or not delivered yet. The subquery is a fence:
// PostgreSQL finds the due rows by their index, in its order, and reads the other tables row by row. The query covers some apps, or all.
func (set *tableSet) dueSteps(some bool) string {
	name, of := "steps", ""
	if some {
		name, of = "steps of apps", " AND a.name = ANY($3)"
	}
	return set.text(name, func() string {
		return `SELECT a.name, r.name, x.id, e.pos, e.step, e.due_at, p.expires_at, e.steps
			FROM (SELECT * FROM escalation WHERE due_at > 0 AND due_at <= $1 ORDER BY due_at, pos OFFSET 0) AS e
			JOIN pending p ON p.recipient = ANY(ARRAY[e.recipient]) AND p.pos = e.pos AND p.seq > 0 AND p.expires_at + 0 > $1
			JOIN recipient r ON r.key = e.recipient JOIN app a ON a.key = r.app` + of + `
			CROSS JOIN LATERAL (` + all(set.hours, "SELECT n.id FROM note_%[1]d n WHERE n.recipient = e.recipient AND n.pos = e.pos") + `) AS x
			ORDER BY e.due_at, e.pos LIMIT $2`
	})
}

const (
	nextStep = "SELECT coalesce((SELECT due_at FROM escalation WHERE due_at > $1 AND due_at > 0 ORDER BY due_at LIMIT 1), 0)"
	// A query for some apps searches no further ahead than aheadOfSteps, since there may be many rows of other apps.
	nextStepOf = `SELECT coalesce((SELECT e.due_at FROM (SELECT recipient, due_at FROM escalation WHERE due_at > $1 AND due_at > 0 AND due_at < $2 ORDER BY due_at OFFSET 0) AS e
		JOIN recipient r ON r.key = e.recipient JOIN app a ON a.key = r.app AND a.name = ANY($3) ORDER BY e.due_at LIMIT 1), $2)`
)

// aheadOfSteps is how far into the future nextStepOf searches.
const aheadOfSteps = time.Second

// StepsDue implements mailbox.Escalator. It locks nothing: two servers that call it at the same time get the same steps.
func (s *Store) StepsDue(ctx context.Context, apps []string, now time.Time, limit int) (due []mailbox.StepDue, next time.Time, err error) {
	err = s.tables.with(ctx, func(set *tableSet) error {
		due, next, err = s.stepsDue(ctx, set, apps, millis.Of(now), limit)
		return err
	})
	if err != nil {
		return nil, time.Time{}, s.storeError("read steps that are due", err)
	}
	return due, next, nil
}

func (s *Store) stepsDue(ctx context.Context, set *tableSet, apps []string, now int64, limit int) (due []mailbox.StepDue, next time.Time, err error) {
	args, later, ahead := []any{now, limit}, nextStep, []any{now}
	if apps != nil {
		args, later, ahead = append(args, apps), nextStepOf, append(ahead, now+aheadOfSteps.Milliseconds(), apps)
	}
	rows, err := s.db.Pool().Query(ctx, set.dueSteps(apps != nil), args...)
	if err != nil {
		return nil, next, err
	}
	var d mailbox.StepDue
	var at, expires int64
	var plan []byte
	_, err = pgx.ForEachRow(rows, []any{&d.App, &d.Recipient, &d.ID, &d.Pos, &d.Step, &at, &expires, &plan}, func() error {
		steps, err := content.DecodeSteps(plan)
		if err != nil {
			return fmt.Errorf("notification %s at %d: %w", d.ID, d.Pos, err)
		}
		if d.Step < len(steps) {
			d.Channel, d.StepOptions = steps[d.Step].Channel, steps[d.Step].StepOptions
			d.Due, d.ExpiresAt = millis.Time(at), millis.Time(expires)
			due = append(due, d)
		}
		return nil
	})
	if err != nil {
		return nil, next, err
	}
	if err := s.db.Pool().QueryRow(ctx, later, ahead...).Scan(&at); err != nil {
		return nil, next, err
	}
	return due, millis.Time(at), nil
}

// armed is the state of a copy's escalation.
type armed struct {
	key, pos, due, from int64
	step                int
	steps               []notification.Step
}

// after advances the escalation past a step that was handed over. ok is false if another step is next.
func (e *armed) after(d *mailbox.StepDone, now int64) (ok bool) {
	if e.step != d.Step || e.step >= len(e.steps) {
		return false
	}
	if !d.Until.IsZero() {
		e.due = millis.Of(d.Until)
		return true
	}
	gone := e.steps[e.step].After
	if e.step++; e.step == len(e.steps) {
		e.due = 0
		return true
	}
	if e.due = max(e.due+(e.steps[e.step].After-gone).Milliseconds(), e.from+e.steps[e.step].After.Milliseconds()); d.Skipped {
		e.due = now
	}
	return true
}

// HandedOver implements mailbox.Escalator. It skips locked rows, so that no transactions wait in a circle: such copies are just being
// settled, or another server is marking the same step. If a skipped step is still due afterwards, it is handed over again, which changes
// nothing.
func (s *Store) HandedOver(ctx context.Context, done []mailbox.StepDone, now time.Time) error {
	err := s.db.Do(ctx, "arm steps", func(ctx context.Context, tx pgx.Tx) error {
		list, err := lockSteps(ctx, tx, done)
		if err != nil {
			return err
		}
		var keys, positions, due []int64
		var steps []int16
		for i := range done {
			if e := list[done[i].Pos]; e != nil && e.after(&done[i], millis.Of(now)) {
				keys, positions, due = append(keys, e.key), append(positions, e.pos), append(due, e.due)
				steps = append(steps, int16(e.step)) // at most 8
				delete(list, e.pos)                  // duplicates are ignored
			}
		}
		if len(keys) == 0 {
			return nil
		}
		_, err = tx.Exec(ctx, `UPDATE escalation e SET step = q.step, due_at = q.due
			FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[]) AS q(recipient, pos, step, due) WHERE e.recipient = ANY(ARRAY[q.recipient]) AND e.pos = q.pos`,
			keys, positions, steps, due)
		return err
	})
	return s.storeError("note that steps were handed over", err)
}

// stepsOfCopies joins q(app, name, pos) with their rows e.
const stepsOfCopies = "FROM unnest($1::text[], $2::text[], $3::bigint[]) AS q(app, name, pos) " + named + `
	JOIN escalation e ON e.recipient = ANY(ARRAY[r.key]) AND e.pos = q.pos`

func lockSteps(ctx context.Context, tx pgx.Tx, done []mailbox.StepDone) (map[int64]*armed, error) {
	refs := make([]mailbox.Ref, len(done))
	for i := range done {
		refs[i] = done[i].Ref
	}
	apps, names, positions := columnsOf(refs)
	rows, err := tx.Query(ctx, "SELECT e.recipient, e.pos, e.step, e.due_at, e.from_at, e.steps "+stepsOfCopies+" FOR UPDATE OF e SKIP LOCKED", apps, names, positions)
	if err != nil {
		return nil, err
	}
	list := make(map[int64]*armed, len(done))
	var e armed
	var plan []byte
	_, err = pgx.ForEachRow(rows, []any{&e.key, &e.pos, &e.step, &e.due, &e.from, &plan}, func() (err error) {
		if e.steps, err = content.DecodeSteps(plan); err != nil {
			return fmt.Errorf("notification at %d: %w", e.pos, err)
		}
		one := e
		list[e.pos] = &one
		return nil
	})
	return list, err
}

func columnsOf(refs []mailbox.Ref) (apps, names []string, positions []int64) {
	for _, ref := range refs {
		apps, names, positions = append(apps, ref.App), append(names, ref.Recipient), append(positions, ref.Pos)
	}
	return apps, names, positions
}

// Hurry implements mailbox.Escalator. It stores the step's new time, since another server may hand the step over; it skips locked rows, as
// HandedOver does.
func (s *Store) Hurry(refs []mailbox.Ref) {
	ctx, cancel := pgdb.Within(context.Background(), hurryWithin)
	defer cancel()
	apps, names, positions := columnsOf(refs)
	err := s.db.Do(ctx, "hurry steps", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `WITH due AS MATERIALIZED (SELECT e.recipient, e.pos `+stepsOfCopies+` WHERE e.step = 0 AND e.due_at > $4 FOR UPDATE OF e SKIP LOCKED)
			UPDATE escalation e SET due_at = $4 FROM due q WHERE e.recipient = ANY(ARRAY[q.recipient]) AND e.pos = q.pos`, apps, names, positions, s.nowMS())
		return err
	})
	if err != nil && !s.closed() {
		s.cfg.Log.WarnContext(ctx, "steps that could begin at once come at their time", "count", len(refs), "error", err)
	}
}

// StepsOf implements mailbox.Escalator.
func (s *Store) StepsOf(ctx context.Context, ref mailbox.Ref) (steps []notification.Step, next int, err error) {
	rows, err := s.db.Pool().Query(ctx, "SELECT e.step, e.steps, e.due_at - e.from_at "+stepsOfCopies+" JOIN pending p ON p.recipient = ANY(ARRAY[r.key]) AND p.pos = e.pos",
		[]string{ref.App}, []string{ref.Recipient}, []int64{ref.Pos})
	if err == nil {
		var plan []byte
		var after int64
		_, err = pgx.ForEachRow(rows, []any{&next, &plan, &after}, func() (err error) {
			if steps, err = content.DecodeSteps(plan); err == nil && next < len(steps) {
				notification.PutOff(steps, next, time.Duration(after)*time.Millisecond)
			}
			return err
		})
	}
	if err != nil {
		return nil, 0, s.storeError("read steps of "+ref.Recipient, err)
	}
	return steps, next, nil
}

// clearSteps deletes rows of copies that are no longer open. Such rows exist only if servers of a version without steps settled copies
// while the cluster was being upgraded.
func (s *Store) clearSteps(ctx context.Context) error {
	_, err := s.db.Pool().Exec(ctx, "DELETE FROM escalation e WHERE NOT EXISTS (SELECT FROM pending p WHERE p.recipient = ANY(ARRAY[e.recipient]) AND p.pos = e.pos)")
	return err
}
