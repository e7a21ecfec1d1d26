package escalation

import (
	"encoding/json"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// told is a message from one server to the others; the owner of the app acts on it. If it is lost, the owner finds the same information in
// the store.
type told struct {
	Due   bool        `json:"due,omitempty"` // a step may be due sooner than the owner has planned
	In    int64       `json:"in,omitempty"`  // in so many milliseconds
	Apps  []string    `json:"apps,omitempty"`
	Ended []endedCopy `json:"ended,omitempty"`
}

// endedCopy is a copy that was settled.
type endedCopy struct {
	App       string `json:"app"`
	Recipient string `json:"recipient"`
	Pos       int64  `json:"pos"`
	Note      string `json:"note"`
}

// tellAtMost is the most copies in one message.
const tellAtMost = 200

// TellOthers sets the function that sends messages to the owners of apps. It must be called before Run.
func (s *Service) TellOthers(tell func(body []byte)) { s.others = tell }

// Heard handles a message from another server. It does not wait.
func (s *Service) Heard(body []byte) error {
	var t told
	if err := json.Unmarshal(body, &t); err != nil {
		return fmt.Errorf("what another server tells of escalations: %w", err)
	}
	for _, e := range t.Ended {
		if s.owns(e.App) {
			s.settled(copyOf{mailbox.Ref{App: e.App, Recipient: e.Recipient, Pos: e.Pos}, e.Note})
		}
	}
	for _, app := range t.Apps {
		s.want(app)
	}
	if t.Due {
		s.lookBy(s.cfg.Now().Add(time.Duration(t.In) * time.Millisecond))
	}
	if len(t.Ended) > 0 {
		poke(s.wake)
	}
	return nil
}

func (s *Service) say(t told) {
	if s.others == nil {
		return
	}
	if body, err := json.Marshal(t); err == nil {
		s.others(body)
	}
}

// tellDue reports to the owners of apps the steps that they would find too late. Each owner gets one message, with the time of its earliest
// step: its query at that time finds all steps due within a second.
func (s *Service) tellDue(stored []storedCopy, hurried map[mailbox.Ref]bool) {
	if !s.shared() {
		return
	}
	now := s.cfg.Now()
	first := make(map[string]time.Duration) // by app, time until its first step
	for i := range stored {
		c := &stored[i]
		in := max(c.at.Sub(now), 0)
		if hurried[c.Ref] {
			in = 0
		}
		if soonest, some := first[c.App]; in < lookShared && (!some || in < soonest) && !s.owns(c.App) {
			first[c.App] = in
		}
	}
	for app, in := range first {
		s.say(told{Due: true, In: in.Milliseconds(), Apps: []string{app}})
	}
}

// tellEnded reports copies that were settled here to the owners of their apps.
func (s *Service) tellEnded() {
	if !s.shared() {
		return
	}
	s.mu.Lock()
	var theirs []copyOf
	ours := s.ended[:0]
	for _, c := range s.ended {
		if s.ownedNow(c.App) != nil {
			ours = append(ours, c)
		} else {
			theirs = append(theirs, c)
		}
	}
	s.ended = ours
	s.mu.Unlock()
	for len(theirs) > 0 {
		part := theirs[:min(len(theirs), tellAtMost)]
		theirs = theirs[len(part):]
		t := told{}
		for _, c := range part {
			s.want(c.App) // if the app has no owner now, its next owner finds the copy in the store
			t.Ended = append(t.Ended, endedCopy{c.App, c.Recipient, c.Pos, c.note})
		}
		s.say(t)
	}
}
