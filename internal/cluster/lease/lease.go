// Package lease assigns work to only one of the servers that share a store: sending an app's campaigns, posting its events, receiving its
// bot's messages.
package lease

import (
	"context"
	"errors"
	"time"
)

const (
	// stopPatience is how long requests under way may take when the server stops. A longer request is cancelled, and its outcome is
	// unknown.
	stopPatience = 4 * time.Second
	// lossPatience is how long requests under way may take when another server is about to become the owner: until then their outcomes
	// count.
	lossPatience = 2 * time.Second
)

var errStopped = errors.New("the server stopped while it waited for the answer")

// Func calls run whenever this server becomes the owner of a name. When it is no longer the owner, ctx ends, and run must return within
// 3 s. held reports whether the server is the owner at this moment. Call it before each request: a process that was suspended beyond its
// lease notices the loss late. release gives up the name and waits until run has returned; no other server owns the name before. If run
// returns earlier, the name is given up, too, and run is called again when this server next becomes the owner.
type Func func(name string, run func(ctx context.Context, held func() bool)) (release func())

// Heeding wraps held: when held returns false, it calls end at once, earlier than the lease's owner would end ctx.
func Heeding(held func() bool, end context.CancelFunc) func() bool {
	return func() bool {
		if held() {
			return true
		}
		end()
		return false
	}
}

// Finishing returns a context for requests that are under way when ctx ends: it then lasts some seconds longer, and fewer if the name is no
// longer held. end ends it.
func Finishing(ctx context.Context, held func() bool) (hard context.Context, end func()) {
	hard, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		patience := stopPatience
		if !held() {
			patience = lossPatience
		}
		time.AfterFunc(patience, func() { cut(errStopped) })
	})
	return hard, func() {
		forget()
		cut(nil)
	}
}

// Alone returns the Func of a server without other servers: it owns every name at once, until ctx ends.
func Alone(ctx context.Context) Func {
	return func(_ string, run func(context.Context, func() bool)) (release func()) {
		ctx, end := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			run(ctx, func() bool { return true })
		}()
		return func() {
			end()
			<-done
		}
	}
}
