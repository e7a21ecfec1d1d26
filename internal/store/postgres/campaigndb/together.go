package campaigndb

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// together lets simultaneous registrations of an app share transactions. Otherwise they would wait for each other's row lock, each on its
// own connection.
type together struct {
	mu     sync.Mutex
	apps   map[string][]*registering // waiting registrations of apps for which a goroutine is writing
	closed bool
	wg     sync.WaitGroup
}

// registering is one caller's registrations.
type registering struct {
	regs    []audience.Registration
	results []audience.Registered
	err     error
	done    chan struct{}
}

// registerRows is the number of registrations in one transaction, for which other writers of the app's endpoints wait.
const registerRows = 500

// Register implements endpoint.Store. Once a slice has begun, Register waits for it even if ctx ends.
func (s *Store) Register(ctx context.Context, app string, regs []audience.Registration) ([]audience.Registered, error) {
	done := make([]audience.Registered, 0, len(regs))
	for len(regs) > 0 {
		if err := ctx.Err(); err != nil {
			return done, fmt.Errorf("register endpoints: %w", context.Cause(ctx))
		}
		slice := regs[:min(len(regs), registerRows)]
		regs = regs[len(slice):]
		op := &registering{regs: slice, done: make(chan struct{})}
		if !s.add(app, op) {
			return done, fmt.Errorf("register endpoints: %w", mailbox.ErrClosed)
		}
		if <-op.done; op.err != nil {
			return done, op.err
		}
		done = append(done, op.results...)
	}
	return done, nil
}

// add queues registrations, and ensures that a goroutine writes the app's.
func (s *Store) add(app string, op *registering) bool {
	t := &s.together
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	waiting, writing := t.apps[app]
	if t.apps == nil {
		t.apps = make(map[string][]*registering)
	}
	t.apps[app] = append(waiting, op)
	if !writing {
		t.wg.Go(func() {
			for ops := t.take(app); len(ops) > 0; ops = t.take(app) {
				s.registerTogether(app, ops)
			}
		})
	}
	return true
}

// take takes waiting registrations of an app, as many as fit into a transaction.
func (t *together) take(app string) (ops []*registering) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting, rows := t.apps[app], 0
	for len(ops) < len(waiting) {
		if rows += len(waiting[len(ops)].regs); rows > registerRows && len(ops) > 0 {
			break
		}
		ops = waiting[:len(ops)+1]
	}
	if len(waiting) == 0 {
		delete(t.apps, app)
	} else {
		t.apps[app] = waiting[len(ops):]
	}
	return ops
}

// end stops accepting registrations and waits until the queued ones are written.
func (t *together) end() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wg.Wait()
}

// registerTogether writes the registrations of several callers. If the database refuses one of them, each is written alone, so that the
// others do not fail with it.
func (s *Store) registerTogether(app string, ops []*registering) {
	var regs []audience.Registration
	for _, op := range ops {
		regs = append(regs, op.regs...)
	}
	var results []audience.Registered
	err := s.write(context.Background(), "register endpoints", app, func(ctx context.Context, w *writer) (err error) {
		w.sweeps = true
		results, err = w.registerAll(ctx, regs)
		return err
	})
	if len(ops) > 1 && rejected(err) {
		for i := range ops {
			s.registerTogether(app, ops[i:i+1])
		}
		return
	}
	for _, op := range ops {
		if op.err = err; err == nil {
			op.results, results = results[:len(op.regs):len(op.regs)], results[len(op.regs):]
		}
		close(op.done)
	}
}

// rejected reports whether the database refused a value.
func rejected(err error) bool {
	var failed *pgconn.PgError
	return errors.As(err, &failed) && len(failed.Code) == 5 && failed.Code[:2] == "22"
}
