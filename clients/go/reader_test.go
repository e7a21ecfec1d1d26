package godwit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// whole is a scripted connection that knows when all its frames have been read.
type whole struct{ *scripted }

func (c whole) drained() bool       { return len(c.in) == 0 }
func (c whole) beforeRead(f func()) {}

// requests sends requests from one id to another.
func (c *scripted) requests(from, to int) {
	for i := from; i <= to; i++ {
		c.in <- serverFrame{Request: &Request{id: fmt.Sprint(i), Deadline: time.Now().Add(time.Hour)}}
	}
}

// replies removes the client's frames so far and returns which requests they answer.
func (c *scripted) replies() (answered []string) {
	for {
		select {
		case f := <-c.seen:
			if f.Reply != nil {
				answered = append(answered, f.Reply.RequestID)
			}
		default:
			return answered
		}
	}
}

// worker starts a worker whose connections know when all their frames have been read, and returns the first after enough requests for the
// reader to run handlers itself.
func worker(t *testing.T, handle RequestHandler) (*listening, *scripted) {
	t.Helper()
	conns := make(chan *scripted, 10)
	l := listenBy(t, func(c *scripted) conn { return whole{c} }, func(_ int, c *scripted) error {
		c.welcome()
		conns <- c
		return nil
	}, nil, Answers(handle))
	c := <-conns
	c.warm(t)
	return l, c
}

// warm sends as many requests as it takes for the reader to run handlers itself.
func (c *scripted) warm(t *testing.T) {
	t.Helper()
	for range 2 {
		c.requests(1, oftenCount)
		synctest.Wait()
		if got := c.replies(); len(got) != oftenCount {
			t.Fatalf("%d of %d requests are answered", len(got), oftenCount)
		}
	}
}

// onReader reports whether its caller is a handler that the reader runs itself.
func onReader() bool {
	pcs := make([]uintptr, 20)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for {
		f, more := frames.Next()
		if f.Function == "godwit.dev/godwit/clients/go.(*reader).run" {
			return true
		}
		if !more {
			return false
		}
	}
}

func TestQuickHandlersOfManyRequestsShareTheirReadersGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var on atomic.Int32
		l, c := worker(t, func(context.Context, *Request) (*Answer, error) {
			if onReader() {
				on.Add(1)
			}
			return nil, nil
		})
		before := on.Load()
		c.requests(100, 119)
		synctest.Wait()
		if got := c.replies(); len(got) != 20 || on.Load() != before+20 {
			t.Errorf("%d of 20 requests are answered, %d on the reader", len(got), on.Load()-before)
		}
		time.Sleep(time.Second)
		before = on.Load()
		c.warm(t)
		if on.Load() != before+oftenCount {
			t.Errorf("after a pause the reader ran %d handlers, want the last %d", on.Load()-before, oftenCount)
		}
		l.end()
	})
}

func TestAHandlerThatWaitsForAnotherRequestGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := make(chan struct{})
		l, c := worker(t, func(_ context.Context, r *Request) (*Answer, error) {
			switch r.id {
			case "101":
				<-other
			case "102":
				close(other)
			}
			return nil, nil
		})
		time.Sleep(time.Second) // nothing watches a reader without requests
		c.warm(t)
		c.requests(101, 110)
		time.Sleep(10 * stallTime)
		synctest.Wait()
		if got := c.replies(); len(got) != 10 {
			t.Errorf("answered are %v", got)
		}
		l.end()
	})
}

func TestAHandlerThatStaysDoesNotKeepItsWorkerFromConnectingAgain(t *testing.T) {
	for name, lost := range map[string]func(l *listening){
		"nobody notices":     func(*listening) {},
		"the writer notices": func(l *listening) { l.l.out.ack("x") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stay := make(chan struct{})
				l, c := worker(t, func(_ context.Context, r *Request) (*Answer, error) {
					if r.id == "101" {
						<-stay
					}
					return nil, nil
				})
				c.requests(101, 101)
				synctest.Wait()
				c.end(errors.New("lost"))
				lost(l)
				time.Sleep(time.Second)
				if n := l.dials(); n != 2 {
					t.Errorf("it has connected %d times", n)
				}
				close(stay)
				l.end()
			})
		})
	}
}

func TestAHandlerThatEndsItsGoroutineDoesNotEndTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := worker(t, func(_ context.Context, r *Request) (*Answer, error) {
			if r.id == "101" {
				runtime.Goexit()
			}
			return nil, nil
		})
		c.requests(101, 103)
		synctest.Wait()
		if got := fmt.Sprint(c.replies()); got != "[102 103]" {
			t.Errorf("answered are %s", got)
		}
		l.end()
	})
}
