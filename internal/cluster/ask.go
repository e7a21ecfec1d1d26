package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
)

// How nodes ask each other.
const (
	askPatience = 250 * time.Millisecond // for the answers of all
	mostAsked   = 8                      // for each kind, the requests that may wait, as a multiple of those answered at once; further ones are ignored
)

// question is the body of kindAsk, answer the body of kindAnswer.
type question struct {
	ID   uint64          `json:"id"`
	What string          `json:"what"`
	Body json.RawMessage `json:"body,omitempty"`
}

type answer struct {
	ID   uint64          `json:"id"`
	Err  string          `json:"error,omitempty"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Handler answers a request of another node. ctx ends when the other node stops waiting.
type Handler func(ctx context.Context, body json.RawMessage) (any, error)

// asks holds the requests under way, from and to this node.
type asks struct {
	mu       sync.Mutex
	last     uint64
	waiting  map[uint64]chan reply
	handlers map[string]*handler
	wg       sync.WaitGroup
}

type handler struct {
	do       Handler
	patience time.Duration
	running  chan struct{} // a semaphore for the requests that are handled at once
	queued   int           // guarded by asks.mu
}

type reply struct {
	from string
	answer
}

func (a *asks) init() {
	a.waiting = make(map[uint64]chan reply)
	a.handlers = make(map[string]*handler)
}

func (a *asks) wait() { a.wg.Wait() }

// Answer sets the handler for one kind of question: at most atOnce calls run at a time, each for at most patience.
func (c *Cluster) Answer(what string, patience time.Duration, atOnce int, do Handler) {
	c.asks.mu.Lock()
	defer c.asks.mu.Unlock()
	c.asks.handlers[what] = &handler{do: do, patience: patience, running: make(chan struct{}, atOnce)}
}

// askAll sends a request to all other nodes and calls each with their answers, one at a time. complete reports that every node that may be
// alive has answered.
func (c *Cluster) askAll(ctx context.Context, what string, body any, each func(json.RawMessage)) (complete bool) {
	return c.askEach(ctx, what, body, func(_ string, body json.RawMessage) { each(body) })
}

// askEach is askAll, but also passes the boot of the answering node.
func (c *Cluster) askEach(ctx context.Context, what string, body any, each func(boot string, body json.RawMessage)) (complete bool) {
	boots, complete := c.listening()
	if len(boots) == 0 {
		return complete
	}
	id, got := c.asks.open(len(boots))
	defer c.asks.end(id)
	_ = c.publish(allNodes, message{kind: kindAsk, body: text(question{ID: id, What: what, Body: text(body)})})
	timer := time.NewTimer(askPatience)
	defer timer.Stop()
	for len(boots) > 0 {
		select {
		case r := <-got:
			i := slices.Index(boots, r.from)
			if i < 0 {
				continue
			}
			boots = slices.Delete(boots, i, i+1)
			if r.Err != "" {
				complete = false
				continue
			}
			each(r.from, r.Body)
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return complete
}

// AskAll sends a request to all other nodes, waits a quarter of a second at most, and calls each with their answers, one at a time.
// complete reports that every node that may be alive has answered.
func (c *Cluster) AskAll(ctx context.Context, what string, each func(json.RawMessage)) (complete bool) {
	return c.askAll(ctx, what, nil, each)
}

// ErrNoNode means that there is no such node, or that it does not answer.
var ErrNoNode = fmt.Errorf("%w: the node does not answer", topic.ErrUnavailable)

// AskOne sends a request to one node, and waits for the answer until ctx ends.
func (c *Cluster) AskOne(ctx context.Context, boot, what string, body any) (json.RawMessage, error) {
	if boots, _ := c.listening(); !slices.Contains(boots, boot) {
		return nil, ErrNoNode
	}
	id, got := c.asks.open(1)
	defer c.asks.end(id)
	if err := c.publish(oneNode+boot, message{kind: kindAsk, body: text(question{ID: id, What: what, Body: text(body)})}); err != nil {
		return nil, err
	}
	select {
	case r := <-got:
		if r.Err != "" {
			return nil, errors.New(r.Err)
		}
		return r.Body, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (a *asks) open(n int) (id uint64, got chan reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	got = make(chan reply, n)
	a.waiting[a.last] = got
	return a.last, got
}

func (a *asks) end(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, id)
}

func (c *Cluster) gotAnswer(m *message) {
	var r reply
	if json.Unmarshal(m.body, &r.answer) != nil {
		c.counts.undecoded.Add(1)
		return
	}
	r.from = m.from
	c.asks.mu.Lock()
	got := c.asks.waiting[r.ID]
	c.asks.mu.Unlock()
	select {
	case got <- r: // nil where nobody waits
	default:
	}
}

// gotAsk answers in another goroutine, because the line must not block.
func (c *Cluster) gotAsk(m *message) {
	var q question
	if json.Unmarshal(m.body, &q) != nil {
		c.counts.undecoded.Add(1)
		return
	}
	a := &c.asks
	a.mu.Lock()
	h := a.handlers[q.What]
	full := c.ctx.Err() != nil || h != nil && h.queued >= mostAsked*cap(h.running)
	if h != nil && !full {
		h.queued++
		a.wg.Add(1)
	}
	a.mu.Unlock()
	switch {
	case full: // the sender gets no answer
	case h == nil:
		_ = c.publish(oneNode+m.from, message{kind: kindAnswer, body: text(answer{ID: q.ID, Err: "this node's version does not know " + q.What})})
	default:
		from := m.from
		go func() {
			defer a.wg.Done()
			c.answer(h, q, from)
			a.mu.Lock()
			h.queued--
			a.mu.Unlock()
		}()
	}
}

func (c *Cluster) answer(h *handler, q question, to string) {
	ctx, cancel := context.WithTimeoutCause(c.ctx, h.patience, fmt.Errorf("%s took longer than %s", q.What, h.patience))
	defer cancel()
	r := answer{ID: q.ID}
	select {
	case h.running <- struct{}{}:
		v, err := h.do(ctx, q.Body)
		<-h.running
		if err != nil {
			r.Err = err.Error()
		} else {
			r.Body = text(v)
		}
	case <-ctx.Done():
		r.Err = context.Cause(ctx).Error()
	}
	if err := c.publish(oneNode+to, message{kind: kindAnswer, body: text(r)}); err != nil { // too large, most likely
		_ = c.publish(oneNode+to, message{kind: kindAnswer, body: text(answer{ID: q.ID, Err: err.Error()})})
	}
}
