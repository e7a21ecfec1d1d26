package godwit

import (
	"context"
	"sync"
	"time"
)

// answerContext is like context.WithDeadline, for request handlers, most of which never use it. It creates its timer, and registers with
// the connection's context, only when a handler needs them.
type answerContext struct {
	context.Context // the connection's
	deadline        time.Time

	mu     sync.Mutex
	timed  context.Context // nil: nobody asked so far
	cancel context.CancelFunc
	over   bool
}

// Deadline implements context.Context.
func (c *answerContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *answerContext) Done() <-chan struct{} { return c.own().Done() }

// Err implements context.Context.
func (c *answerContext) Err() error {
	c.mu.Lock()
	quiet := c.timed == nil && !c.over
	c.mu.Unlock()
	if quiet && c.Context.Err() == nil && time.Now().Before(c.deadline) {
		return nil
	}
	return c.own().Err() // which stays what it is
}

// Value implements context.Context. Derived contexts use it to find their parent's internals.
func (c *answerContext) Value(key any) any {
	c.mu.Lock()
	timed := c.timed
	c.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return c.Context.Value(key)
}

func (c *answerContext) own() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.Context, c.deadline)
		if c.over {
			c.cancel()
		}
	}
	return c.timed
}

// end ends the context after the request was answered.
func (c *answerContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over = true; c.cancel != nil {
		c.cancel()
	}
}
