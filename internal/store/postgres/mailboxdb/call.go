package mailboxdb

import (
	"context"
	"sync"
	"sync/atomic"
)

// call is a caller waiting for its ops, of which there are several if it asked for more than a commit holds.
type call struct {
	left atomic.Int32
	mu   sync.Mutex
	err  error
	done chan struct{}
}

func newCall(ops int) *call {
	c := &call{done: make(chan struct{})}
	c.left.Store(int32(ops))
	return c
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

// wait returns when all ops are done. If ctx ends before, ops that the writer has not taken are withdrawn, and
// those that it has are waited for, since it still writes their results.
func (c *call) wait(ctx context.Context, withdraw func()) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		withdraw()
		<-c.done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// taking lets either the writer take an op or its caller withdraw it.
type taking struct{ state atomic.Int32 }

const (
	opQueued int32 = iota
	opTaken
	opWithdrawn
)

// take reports whether the op is still wanted. The writer may ask again when it tries again.
func (t *taking) take() bool {
	return t.state.CompareAndSwap(opQueued, opTaken) || t.state.Load() == opTaken
}

func (t *taking) withdraw() bool  { return t.state.CompareAndSwap(opQueued, opWithdrawn) }
func (t *taking) withdrawn() bool { return t.state.Load() == opWithdrawn }
