// Package await lets callers wait for operations that a store's writer executes in its own commits.
package await

import (
	"context"
	"sync"
	"sync/atomic"
)

// Op is embedded in operations that are queued for a writer. Either the writer takes the op, or its caller withdraws it when the caller's
// context has ended.
type Op struct {
	call  *call // nil: nobody waits
	state atomic.Int32
}

const (
	queued int32 = iota
	taken
	withdrawn
)

// Take takes the op for the writer, and reports whether it is still wanted. The writer may call Take again when it retries.
func (o *Op) Take() bool {
	return o.state.CompareAndSwap(queued, taken) || o.state.Load() == taken
}

// Waited reports whether a caller waits, or has waited, for the op.
func (o *Op) Waited() bool { return o.call != nil }

// Finish reports to the waiting caller that the op is done, or the error. The writer calls it once, also for a withdrawn op.
func (o *Op) Finish(err error) {
	if o.call != nil && o.state.Load() != withdrawn {
		o.call.finish(err)
	}
}

func (o *Op) op() *Op { return o }

// Waiter is implemented by types that embed an Op.
type Waiter interface{ op() *Op }

// call is a caller that waits for its ops; there are several if the work is too large for one commit.
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

// All submits ops and waits until all are finished; it returns the first error. If ctx ends before that, All withdraws the ops that the
// writer has not taken, with ctx's cause, and waits for the others, since the writer still writes their results.
func All[O Waiter](ctx context.Context, ops []O, submit func(O)) error {
	if len(ops) == 0 {
		return nil
	}
	c := &call{done: make(chan struct{})}
	c.left.Store(int32(len(ops))) // thousands
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
