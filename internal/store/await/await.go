// Package await lets callers wait for operations that a store's writer does for them in commits of its own.
package await

import (
	"context"
	"sync"
	"sync/atomic"
)

// Op is embedded in operations that are queued for a writer. Either the writer takes it or its caller, whose context has ended, withdraws
// it.
type Op struct {
	call  *call // nil: nobody waits
	state atomic.Int32
}

const (
	queued int32 = iota
	taken
	withdrawn
)

// Take reports whether the op is still wanted. The writer may ask again when it tries again.
func (o *Op) Take() bool {
	return o.state.CompareAndSwap(queued, taken) || o.state.Load() == taken
}

// Waited reports whether a caller waits, or has waited, for the op.
func (o *Op) Waited() bool { return o.call != nil }

// Finish tells the waiting caller that the op is done, or why it is not. The writer calls it once, also for an op that was withdrawn.
func (o *Op) Finish(err error) {
	if o.call != nil && o.state.Load() != withdrawn {
		o.call.finish(err)
	}
}

func (o *Op) op() *Op { return o }

// Waiter is implemented by types that embed an Op.
type Waiter interface{ op() *Op }

// call is a caller that waits for its ops: several, if its work is too large for one commit.
type call struct {
	left atomic.Int32
	mu   sync.Mutex
	err  error
	done chan struct{}
}

func (c *call) finish(err error) {
	if err != nil {
		c.mu.Lock()
		if c.err == nil {
			c.err = err
		}
		c.mu.Unlock()
	}
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
}

// All submits ops and waits until all are finished; the first error is returned. If ctx ends before, ops that the writer has
// not taken are withdrawn with ctx's cause, and those that it has are waited for, since it still writes their results.
func All[O Waiter](ctx context.Context, ops []O, submit func(O)) error {
	if len(ops) == 0 {
		return nil
	}
	c := &call{done: make(chan struct{})}
	c.left.Store(int32(len(ops))) //nolint:gosec // thousands
	for _, o := range ops {
		o.op().call = c
	}
	for _, o := range ops {
		submit(o)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		for _, o := range ops {
			if o.op().state.CompareAndSwap(queued, withdrawn) {
				c.finish(context.Cause(ctx))
			}
		}
		<-c.done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
