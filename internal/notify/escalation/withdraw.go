package escalation

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

// withdrawalsInFlight is how many withdrawals run at the same time.
const withdrawalsInFlight = 32

// lookAtEnded withdraws messages whose copies have ended, and emits events for copies whose plan is exhausted. It runs in the background,
// since it is not urgent.
func (s *Service) lookAtEnded() {
	s.mu.Lock()
	mine := make(map[string][]copyOf)
	var others []copyOf
	for _, c := range s.ended {
		if s.ownedNow(c.App) != nil {
			mine[c.App] = append(mine[c.App], c)
		} else {
			others = append(others, c)
		}
	}
	s.looks += len(s.ended) - len(others)
	s.ended = others
	s.mu.Unlock()
	for i := range others {
		s.want(others[i].App)
	}
	if len(others) > 0 && s.shared() {
		poke(s.commits) // whoever owns them is told
	}
	for app, list := range mine {
		if !s.task(app, func(o *owned) { s.lookAtCopies(o, list) }) {
			s.looked(len(list)) // the lease was lost just now; the next owner finds the copies in the store
		}
	}
}

func (s *Service) looked(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks -= n
}

func (s *Service) lookAtCopies(o *owned, list []copyOf) {
	for _, c := range list {
		if err := s.lookAtCopy(o.ctx, o.hard, c); err != nil && o.ctx.Err() == nil {
			s.cfg.Log.WarnContext(o.ctx, "what was sent of a notification cannot be read; what it shows is withdrawn after a restart", "error", err)
		}
		s.looked(1)
	}
}

func (s *Service) lookAtCopy(ctx, hard context.Context, c copyOf) error {
	sends, err := s.cfg.Store.SendsOf(ctx, c.App, c.note, c.Recipient)
	if err != nil || len(sends) == 0 {
		return err
	}
	items, err := s.cfg.Mailbox.Items(ctx, []mailbox.Ref{c.Ref})
	if err != nil {
		return err
	}
	if items[0] != nil {
		return s.lookAt(ctx, c, sends)
	}
	s.withdraw(ctx, hard, sends)
	return nil
}

// withdrawLeft withdraws messages of copies that ended before this server last stopped, or that another server ended
// without reporting it.
func (s *Service) withdrawLeft(ctx context.Context) {
	tick := time.NewTicker(leftEvery)
	defer tick.Stop()
	for {
		s.withdrawAll(ctx)
		var again <-chan time.Time
		if s.shared() {
			again = tick.C
		}
		select {
		case <-ctx.Done():
			return
		case <-s.left:
		case <-again:
		}
	}
}

func (s *Service) withdrawAll(ctx context.Context) {
	for after := int64(0); ctx.Err() == nil; {
		sends, err := s.cfg.Store.ShownSends(ctx, after, s.cfg.Now(), slice)
		if err != nil {
			if ctx.Err() == nil {
				s.cfg.Log.WarnContext(ctx, "what was sent before the server ended cannot be read", "error", err)
			}
			if !pause.For(ctx, retryAfterFault) {
				return
			}
			continue
		}
		if len(sends) == 0 {
			return
		}
		after = sends[len(sends)-1].Num
		of := make(map[string][]Send) // by app
		for i := range sends {
			of[sends[i].App] = append(of[sends[i].App], sends[i])
		}
		for app, list := range of {
			s.want(app)
			done := make(chan struct{})
			if s.task(app, func(o *owned) { defer close(done); s.withdraw(o.ctx, o.hard, list) }) {
				<-done
			}
		}
	}
}

// shows reports whether a device may show a message: its provider accepted it, or the outcome is unknown.
func shows(o dispatch.Outcome) bool { return o == dispatch.Accepted || o == dispatch.Unknown }

// withdraw withdraws the sends that devices may show and whose copies are no longer open.
func (s *Service) withdraw(ctx, hard context.Context, sends []Send) {
	now := s.cfg.Now()
	var shown []Send
	var refs []mailbox.Ref
	for i := range sends {
		if one := &sends[i]; shows(one.Outcome) && one.Address != nil && one.ExpiresAt.After(now) && !one.Tried && !one.Answered && !one.Options.Keep {
			shown = append(shown, *one)
			refs = append(refs, mailbox.Ref{App: one.App, Recipient: one.Recipient, Pos: one.Pos})
		}
	}
	if len(shown) == 0 {
		return
	}
	var items []*mailbox.Item
	for from := 0; from < len(refs); { // one call has the sends of one app
		to := from + 1
		for to < len(refs) && refs[to].App == refs[from].App {
			to++
		}
		part, err := s.cfg.Mailbox.Items(ctx, refs[from:to])
		if err != nil {
			if ctx.Err() == nil {
				s.cfg.Log.WarnContext(ctx, "it cannot be seen what has ended; what it showed is withdrawn after a restart", "error", err)
			}
			return
		}
		items = append(items, part...)
		from = to
	}
	var g errgroup.Group
	g.SetLimit(withdrawalsInFlight)
	for i := range shown {
		if items[i] == nil && ctx.Err() == nil {
			g.Go(func() error { s.withdrawOne(ctx, hard, &shown[i]); return nil })
		}
	}
	_ = g.Wait() // none fails
}

func (s *Service) withdrawOne(ctx, hard context.Context, one *Send) {
	sender, err := s.cfg.Dispatch.Sender(ctx, one.App, one.Channel)
	failed := err
	if err == nil {
		d := dispatch.Delivery{EndpointID: one.EndpointID, Recipient: one.Recipient, Address: one.Address}
		q := request(one.App, one.ID, one.Note, one.Options.To, &d, one.ExpiresAt)
		q.Urgency = push.UrgencyLow
		failed, err = s.cfg.Dispatch.Recall(ctx, hard, sender, one.Channel, push.Sent{Request: q, ExternalID: one.External, At: one.At})
		if err != nil {
			return // the server stops; the withdrawal follows after the next start
		}
	}
	why := ""
	if failed != nil {
		why = failed.Error()
	}
	for {
		now := s.cfg.Now()
		err := s.cfg.Store.Withdrawn(context.WithoutCancel(hard), one.Num, why, now)
		if err == nil && why == "" {
			s.emit(event.Event{App: one.App, Type: event.StepWithdrawn, At: now, Note: one.Note, To: one.Recipient, Channel: string(one.Channel)})
		}
		if err == nil || hard.Err() != nil {
			return
		}
		s.cfg.Log.WarnContext(ctx, "it cannot be noted yet that a message was withdrawn", "error", err)
		pause.For(hard, time.Second)
	}
}
