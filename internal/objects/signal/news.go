package signal

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

const (
	// lookEvery is the interval of reads for changes of other nodes. The bus reports changes sooner, but may lose one.
	lookEvery = 5 * time.Second
	// lookSoon is the interval while the bus may be losing changes: for uneasyFor after the start, after the last reported loss (Missed)
	// and after the last failed read.
	lookSoon  = 2 * time.Second
	uneasyFor = 10 * time.Second
	newsPage  = 1000 // changes read at once
)

// lookForNews delivers changes of other nodes to the sessions here, each within some seconds of its commit.
func (s *Service) lookForNews(shared objectstore.Shared) {
	since, last, failing := s.cfg.Now(), time.Now(), false
	uneasy := last.Add(uneasyFor)
	timer := time.NewTimer(lookSoon)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.missed:
			uneasy = time.Now().Add(uneasyFor)
		case <-timer.C:
		}
		now := time.Now()
		if left := last.Add(lookPace(now.Before(uneasy))).Sub(now); left > 0 {
			timer.Reset(left)
			continue
		}
		last = now
		begun := s.cfg.Now()
		err := s.readNews(shared, since.Add(-objectstore.Overlap))
		switch {
		case err == nil:
			since, failing = begun, false
		case s.ctx.Err() == nil:
			if uneasy = time.Now().Add(uneasyFor); !failing {
				s.log.Warn("looking for objects that other nodes have changed failed, will try until it succeeds", "error", err)
			}
			failing = true
		}
		timer.Reset(lookPace(now.Before(uneasy)))
	}
}

func lookPace(uneasy bool) time.Duration {
	if uneasy {
		return lookSoon
	}
	return lookEvery
}

// readNews reads the objects that have registrations here and were changed on other nodes. Most changes that it finds are known: they were
// made here, arrived over the bus, or were found by the last reads.
func (s *Service) readNews(shared objectstore.Shared, since time.Time) error {
	var from *objectstore.NewsMark
	for {
		news, next, err := shared.News(s.ctx, since, from, newsPage)
		if err != nil {
			return err
		}
		for i := range news {
			n := &news[i]
			w := s.index.find(name{n.App, n.Key})
			if w == nil {
				continue
			}
			st := object.State{Version: n.Version, Known: n.Known}
			if now := w.now.Load(); now != nil && st.Newer(&now.State) {
				s.unread.add(w)
			}
		}
		if next == nil {
			return nil
		}
		from = next
	}
}

// sayHere records that the devices with a session here are not away, since other nodes do not see these sessions.
func (s *Service) sayHere(ctx context.Context) error {
	for i := range s.roster.shards {
		now := s.cfg.Now()
		var here []objectstore.Touch
		sh := &s.roster.shards[i]
		sh.mu.Lock()
		for id := range sh.devices {
			here = append(here, objectstore.Touch{ID: id, SeenAt: now})
		}
		sh.mu.Unlock()
		if err := s.seen(here); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// seen writes the times to the store at which clients were last seen.
func (s *Service) seen(here []objectstore.Touch) error {
	if len(here) == 0 {
		return nil
	}
	done := make(chan error, 1)
	s.store.Touch(here, func(err error) { done <- err })
	return <-done
}
