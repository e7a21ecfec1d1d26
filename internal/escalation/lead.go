package escalation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"godwit.dev/godwit/internal/dispatch"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/own"
)

const (
	// leaseName is what the server owns that hands steps over and sends, of those that share a store.
	leaseName = "escalations"
	// lookShared is how often it looks for what other servers did not tell of.
	lookShared = time.Second
	// leftEvery is how often it looks for what other servers have ended and did not tell of.
	leftEvery = time.Minute
	// lossPatience is how long requests under way may take when another server is about to take over.
	lossPatience = 2 * time.Second
)

// told is what servers tell each other: whichever leads takes it. What gets lost is found in the store.
type told struct {
	Due   bool        `json:"due,omitempty"` // a step may be due sooner than was known
	Ended []endedCopy `json:"ended,omitempty"`
}

// endedCopy is a copy that was settled.
type endedCopy struct {
	App       string `json:"app"`
	Recipient string `json:"recipient"`
	Pos       int64  `json:"pos"`
	Note      string `json:"note"`
}

// tellAtMost bounds the copies of one message.
const tellAtMost = 200

// TellOthers has what the leading server must learn told by tell. It is called before Run.
func (s *Service) TellOthers(tell func(body []byte)) { s.others = tell }

// Heard takes what another server told. It does not wait.
func (s *Service) Heard(body []byte) error {
	var t told
	if err := json.Unmarshal(body, &t); err != nil {
		return fmt.Errorf("what another server tells of escalations: %w", err)
	}
	if s.leads.Load() == nil {
		return nil
	}
	for _, e := range t.Ended {
		s.settled(copyOf{mailbox.Ref{App: e.App, Recipient: e.Recipient, Pos: e.Pos}, e.Note})
	}
	s.notify()
	return nil
}

// Run hurries the steps of what this server stores, and hands steps over and has them sent while it is the one that does, until ctx ends.
// When it returns, nothing is being sent any more and every outcome that came is on disk.
func (s *Service) Run(ctx context.Context) error {
	ask := s.cfg.Own
	if ask == nil {
		ask = own.Alone(ctx)
	}
	release := ask(leaseName, s.lead)
	defer release()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.commits:
		}
		hurried := s.hurry(ctx)
		if s.cfg.Own != nil && s.leads.Load() == nil {
			if hurried {
				s.tellLeader(told{Due: true})
			}
			s.tellEnded()
		}
		s.notify()
	}
}

func (s *Service) tellLeader(t told) {
	if s.others == nil {
		return
	}
	if body, err := json.Marshal(t); err == nil {
		s.others(body)
	}
}

// tellEnded tells the leading server what was settled here.
func (s *Service) tellEnded() {
	s.mu.Lock()
	ended := s.ended
	s.ended = nil
	s.mu.Unlock()
	for len(ended) > 0 {
		part := ended[:min(len(ended), tellAtMost)]
		ended = ended[len(part):]
		t := told{}
		for _, c := range part {
			t.Ended = append(t.Ended, endedCopy{c.App, c.Recipient, c.Pos, c.note})
		}
		s.tellLeader(t)
	}
}

// lead hands steps over and has them sent while this server is the one that does: until ctx ends.
func (s *Service) lead(ctx context.Context, held func() bool) {
	ctx, lose := context.WithCancel(ctx)
	defer lose()
	if !s.takeOver(ctx) {
		return
	}
	heeding := own.Heeding(held, lose)
	s.lose.Store(&lose)
	s.leads.Store(&heeding)
	defer s.leads.Store(nil)
	hard, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	stopping := context.AfterFunc(ctx, func() {
		patience := stopPatience
		if !held() {
			patience = lossPatience
		}
		time.AfterFunc(patience, func() { cut(errors.New("the server stopped while it waited for the answer")) })
	})
	defer stopping()
	var wg sync.WaitGroup
	wg.Go(func() { s.loop(ctx, hard, &wg) })
	wg.Go(func() { s.upkeep(ctx) })
	wg.Go(func() {
		for s.withdrawLeft(ctx, hard); s.cfg.Own != nil && dispatch.Wait(ctx, leftEvery); {
			s.withdrawLeft(ctx, hard)
		}
	})
	wg.Wait()
}

// takeOver settles what was being sent when the last one ended, and lets what waits for a person be tried again: who starts a server has
// looked at what it said. False: ctx ended.
func (s *Service) takeOver(ctx context.Context) bool {
	for {
		n, err := s.cfg.Store.RecoverSends(ctx, resending(), s.cfg.Now())
		if err == nil {
			if n > 0 {
				s.cfg.Log.InfoContext(ctx, "steps of escalations were being sent when the server ended", "count", n)
			}
			if _, err = s.cfg.Store.ReleaseSends(ctx, s.cfg.Now()); err == nil {
				return ctx.Err() == nil
			}
		}
		if ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "sends of escalations cannot be read yet", "error", err)
		}
		if !dispatch.Wait(ctx, retryAfterFault) {
			return false
		}
	}
}

// held reports whether this server is still the one that sends. It is asked before each request leaves.
func (s *Service) held() bool {
	h := s.leads.Load()
	return h != nil && (*h)()
}

// look is how often the one that leads looks for what nobody told of.
func (s *Service) look() time.Duration {
	if s.cfg.Own != nil {
		return lookShared
	}
	return lookEvery
}
