package mailboxdb

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// sliceOp is a piece of upkeep that the lane executes in a separate transaction, for its recipients.
type sliceOp struct {
	do    upkeep
	done  chan error
	since time.Time
}

// slice executes a piece of upkeep.
func (l *lane) slice(o *sliceOp) {
	err := l.makeSure()
	if err == nil {
		err = l.upkeep(o.do)
	}
	o.done <- err
}

func (l *lane) upkeep(do upkeep) error {
	ctx, cancel := pgdb.Within(context.Background(), pgdb.AnswerWithin)
	defer cancel()
	var did outcome
	err := l.s.tables.with(ctx, func(set *tableSet) error {
		return l.s.db.Do(ctx, "commit", func(ctx context.Context, tx pgx.Tx) error {
			did = outcome{}
			if _, err := tx.Exec(ctx, waitInUpkeep); err != nil {
				return err
			}
			return do(ctx, tx, set, &did)
		})
	})
	if err == nil {
		l.did = did
		l.told()
	} else if did.trace.pos != 0 && answerLost(err) {
		l.doubt(&transaction{outcome: did})
	}
	return err
}

// inLanes makes each lane execute a piece of upkeep and waits for all. It completes upkeep that has begun, so it checks ctx only before.
func (s *Store) inLanes(ctx context.Context, lanes []*lane, do func(l *lane) upkeep) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var waits []*sliceOp
	var errs []error
	for _, l := range lanes {
		o := &sliceOp{do: do(l), done: make(chan error, 1), since: time.Now()}
		l.mu.Lock()
		if ended := l.ended; ended {
			errs = append(errs, mailbox.ErrClosed)
		} else {
			l.slices = append(l.slices, o)
			waits = append(waits, o)
		}
		l.mu.Unlock()
		l.nudge()
	}
	for _, o := range waits {
		errs = append(errs, <-o.done)
	}
	return errors.Join(errs...)
}
