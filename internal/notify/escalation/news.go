package escalation

import (
	"context"
	"strings"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/sending/dispatch"
)

// Events takes events about steps.
type Events interface {
	Emit(evs []event.Event)
}

// news is the state needed for correct metrics and events. It is only in memory: after a restart an event may be emitted once more, and
// sends under way are missing in the metrics. Service.mu guards it.
type news struct {
	due       map[[16]byte]begun       // by send: of its step
	exhausted map[mailbox.Ref]struct{} // told of already
	telling   map[[16]byte]struct{}    // sends whose outcome is being stored and not reported yet
}

// begun is a step whose sends are under way.
type begun struct {
	due    time.Time
	number int // from 1; 0: not known
}

func newNews() news {
	return news{due: make(map[[16]byte]begun), exhausted: make(map[mailbox.Ref]struct{}), telling: make(map[[16]byte]struct{})}
}

// begun records when the step of these sends was due.
func (s *Service) begun(sends []Send, due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range sends {
		if len(s.news.due) < mostTold {
			s.news.due[sends[i].ID] = begun{due, sends[i].Step + 1}
		}
	}
}

func eventOf(o dispatch.Outcome) event.Type {
	switch o {
	case dispatch.Accepted:
		return event.StepAccepted
	case dispatch.Refused, dispatch.Expired:
		return event.StepFailed
	case dispatch.Unknown:
		return event.StepUnknown
	case dispatch.TakenBack:
		return event.StepWithdrawn
	case dispatch.Pending, dispatch.Sending, dispatch.Suppressed:
	}
	return ""
}

// beginTelling marks sends whose outcomes are about to be reported: until then no event reports that all steps have ended.
func (s *Service) beginTelling(done map[int64]looked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range done {
		if l.due != nil {
			s.news.telling[l.due.ID] = struct{}{}
		}
	}
}

func (s *Service) endTelling(done map[int64]looked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range done {
		if l.due != nil {
			delete(s.news.telling, l.due.ID)
		}
	}
}

// untold reports whether the outcome of a send has not been reported yet.
func (s *Service) untold(id [16]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.news.telling[id]
	return is
}

// tell reports the outcomes of sends, and schedules a check of their copies.
func (s *Service) tell(p Place, done map[int64]looked, results []dispatch.Result, now time.Time) {
	var evs []event.Event
	var copies []copyOf
	for i := range results {
		r := &results[i]
		d := done[r.Row].due
		if d == nil || r.Outcome == dispatch.Pending {
			continue
		}
		s.mu.Lock()
		step := s.news.due[d.ID]
		delete(s.news.due, d.ID)
		s.mu.Unlock()
		if r.Outcome == dispatch.Accepted && !step.due.IsZero() {
			s.metrics.delay.WithLabelValues(string(p.Channel)).Observe(max(now.Sub(step.due), 0).Seconds())
		}
		if note := done[r.Row].note; r.Outcome == dispatch.Accepted && note != nil {
			s.metrics.tookUntilDelivered(p.Channel, now.Sub(note.Due()))
		}
		if t := eventOf(r.Outcome); t != "" {
			evs = append(evs, event.Event{App: p.App, Type: t, At: now, Note: d.Note, To: d.Recipient, Channel: string(p.Channel), Step: step.number, Detail: clip(r.Detail)})
		}
		copies = append(copies, copyOf{mailbox.Ref{App: p.App, Recipient: d.Recipient, Pos: d.Pos}, d.Note})
	}
	s.emit(evs...)
	s.endTelling(done)
	for _, c := range copies {
		s.sent(c)
	}
}

func (s *Service) emit(evs ...event.Event) {
	if s.cfg.Events != nil && len(evs) > 0 {
		s.cfg.Events.Emit(evs)
	}
}

// lookAt checks whether all steps of an open copy have ended, and reports that once. sends are all sends in the store for the copy's id.
func (s *Service) lookAt(ctx context.Context, c copyOf, sends []Send) error {
	last := -1
	for i := range sends {
		switch one := &sends[i]; {
		case one.Pos != c.Pos: // the id was used before
		case one.Outcome == dispatch.Pending || one.Outcome == dispatch.Sending || s.untold(one.ID):
			return nil // the copy is checked again when that send has ended
		default:
			last = max(last, one.Step)
		}
	}
	steps, _, err := s.cfg.Steps.StepsOf(ctx, c.Ref)
	if err != nil || len(steps) == 0 || last < len(steps)-1 {
		return err
	}
	s.mu.Lock()
	_, told := s.news.exhausted[c.Ref]
	if len(s.news.exhausted) >= mostTold {
		clear(s.news.exhausted)
	}
	s.news.exhausted[c.Ref] = struct{}{}
	s.mu.Unlock()
	if !told {
		s.emit(event.Event{App: c.App, Type: event.Exhausted, At: s.cfg.Now(), Note: c.note, To: c.Recipient})
	}
	return nil
}

// clip shortens a provider's text to the limit of an event.
func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), event.MaxDetail)], "")
}
