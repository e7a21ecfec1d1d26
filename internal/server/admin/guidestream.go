package admin

import "time"

// lookEvery is the interval at which an open guide looks for its first visitor.
const lookEvery = time.Second

// watcher sends a guide again after each change.
type watcher struct {
	a     *admin
	about *goal
	last  string
}

// add adds the guide to the stream if it has changed since the last time, and reports whether it has.
func (w *watcher) add(s *stream) (bool, error) {
	g, err := w.a.guideOf(s.v, w.about)
	if err != nil {
		return false, err
	}
	drawn, err := w.a.draw(s.v.lang, s.v.person.Role, "start", "guide", g)
	if err != nil || drawn == w.last {
		return false, err
	}
	w.last = drawn
	s.add("guide", drawn)
	return true, nil
}

// guideUntil sends the changes of a guide, if there is one, until news; false: the page was left or the server stops.
func (a *admin) guideUntil(s *stream, w *watcher, tick <-chan time.Time, news <-chan struct{}) bool {
	for {
		if w != nil {
			changed, err := w.add(s)
			if err != nil {
				a.Log.WarnContext(s.v.r.Context(), "a guide cannot be followed", "app", s.v.person.App, "guide", w.about.Name, "error", err)
			}
			if changed && a.say(s) != nil {
				return false
			}
		}
		select {
		case <-s.v.r.Context().Done():
			return false
		case <-a.Draining:
			return false
		case <-news:
			return true
		case <-tick:
		}
	}
}

// followGuide sends the guide in the path after each change of its steps.
func (a *admin) followGuide(v *visit) error {
	g, err := a.guideInPath(v)
	if err != nil {
		return err
	}
	s, done, err := a.open(v)
	if err != nil {
		return err
	}
	defer done()
	w := &watcher{a: a, about: g.goal}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for spoken := time.Now(); ; {
		news, err := w.add(s)
		if err != nil {
			a.Log.WarnContext(v.r.Context(), "a guide cannot be followed; browsers ask again", "app", v.person.App, "guide", g.Name, "error", err)
			return nil // the answer has begun
		}
		speak := a.say
		if !news {
			speak = a.alive
		}
		if news || time.Since(spoken) > comeBackAfter {
			spoken = time.Now()
			if speak(s) != nil {
				return nil
			}
		}
		select {
		case <-v.r.Context().Done():
			return nil
		case <-a.Draining:
			return nil
		case <-tick.C:
		}
	}
}
