// Package lease gives work to only one of the servers that share a store: sending an app's campaigns, posting its events,
// listening to its bot.
package lease

import (
	"context"
	"errors"
	"time"
)

const (
	// stopPatience is how long requests under way may take when the server stops. A request that takes longer is cut off, and its
	// outcome is unknown.
	stopPatience = 4 * time.Second
	// lossPatience is how long they may take when another server is about to take over: their outcomes count until it has.
	lossPatience = 2 * time.Second
)

var errStopped = errors.New("the server stopped while it waited for the answer")

// Func has run called whenever this server is the one that owns a name, until it is not any more: ctx ends then, and run
// returns within 3 s. held says whether it is at this moment, which is asked before anything leaves: a process that was
// stopped past its time finds out late. release gives the name up, after run has returned; until then nobody else has it.
// A run that returns before gives the name up too, and is called again when this server is the next one.
type Func func(name string, run func(ctx context.Context, held func() bool)) (release func())

// Heeding wraps held: as soon as held is false, it calls end, before the owner of the lease ends ctx.
func Heeding(held func() bool, end context.CancelFunc) func() bool {
	return func() bool {
		if held() {
			return true
		}
		end()
		return false
	}
}

// Finishing makes the context of requests that are under way when ctx ends: they may go on for some seconds then, fewer if the
// name is not held any more. end ends them.
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

// Alone is for a server without others: it gets each lease at once, until ctx ends.
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
