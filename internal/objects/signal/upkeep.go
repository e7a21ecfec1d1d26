package signal

import (
	"context"
	"sync"
	"time"

	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// flusher collects the clients whose acknowledgements have to be written.
type flusher struct {
	mu   sync.Mutex
	list []*Client
}

// progressPhase is the state of a client's acknowledgements and last-seen time on their way to disk.
type progressPhase uint8

const (
	progressStored  progressPhase = iota
	progressListed                // the flusher will write the progress
	progressWriting               // the progress is being written: a set stored now could be overwritten with older progress
	progressStale                 // the progress is being written, and listed again because it has changed meanwhile
)

// touch records a change, and reports whether the caller must add the client to the flusher.
func (p *progressPhase) touch() bool {
	switch *p {
	case progressStored:
		*p = progressListed
		return true
	case progressWriting:
		*p = progressStale
		return true
	case progressListed, progressStale:
	}
	return false
}

// write marks the listed progress as being written.
func (p *progressPhase) write() { *p = progressWriting }

// drop removes the progress from the list, since there is nothing to write.
func (p *progressPhase) drop() { *p = progressStored }

// written ends the write.
func (p *progressPhase) written() {
	if *p == progressStale {
		*p = progressListed
	} else {
		*p = progressStored
	}
}

// busy reports whether the progress is being written.
func (p progressPhase) busy() bool { return p == progressWriting || p == progressStale }

// touch records that a client was seen or has acknowledged an object. The client's lock is held.
func (c *Client) touch() {
	if !c.lasting() || !c.progress.touch() {
		return
	}
	f := &c.svc.flush
	f.mu.Lock()
	f.list = append(f.list, c)
	f.mu.Unlock()
}

// keepFlushed writes clients' progress once a second, and a last time when the service ends. It is the only writer, so at most one such
// write is running.
func (s *Service) keepFlushed() {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			s.flushNow()
			return
		case <-tick.C:
			s.flushNow()
		}
	}
}

// flushNow writes the progress of clients and returns when that is done. A failure only causes redeliveries.
func (s *Service) flushNow() {
	s.flush.mu.Lock()
	list := s.flush.list
	s.flush.list = nil
	s.flush.mu.Unlock()
	now := s.cfg.Now()
	var batch []objectstore.Touch
	var writing []*Client
	all := make([]objectstore.Progress, 0, len(list)) // progress of all clients; not nil, since nil would leave the stored progress unchanged
	for _, c := range list {
		c.mu.Lock()
		if c.phase == loaded {
			from := len(all)
			all = c.progressTo(all)
			batch = append(batch, objectstore.Touch{ID: c.id, SeenAt: now, Progress: all[from:len(all):len(all)], Opened: time.UnixMilli(c.opened)})
			writing = append(writing, c)
			c.progress.write()
		} else {
			c.progress.drop()
		}
		c.mu.Unlock()
	}
	if len(batch) == 0 {
		return
	}
	done := make(chan struct{})
	s.store.Touch(batch, func(error) {
		for _, c := range writing {
			c.mu.Lock()
			c.progress.written()
			if c.session == nil || c.saves.due() {
				c.later()
			}
			c.mu.Unlock()
		}
		close(done)
	})
	<-done
}

// collectEvery is the interval of collect. It is short enough that no client is kept much longer than configured.
func (s *Service) collectEvery() time.Duration { return min(s.cfg.Retain/collectShare, collectMost) }

// collect drops the registrations of clients that have been away for too long.
func (s *Service) collect() {
	tick := time.NewTicker(s.collectEvery())
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			if err := s.Collect(s.ctx); err != nil && s.ctx.Err() == nil {
				s.log.Warn("dropping registrations of clients that stay away failed", "error", err)
			}
		}
	}
}

// Collect drops the registrations of clients that have been away for longer than Config.Retain. If nodes share the store it drops them
// later, since each node reports its connected clients only at intervals.
func (s *Service) Collect(ctx context.Context) error {
	before := s.cfg.Now().Add(-s.cfg.Retain)
	if _, ok := s.store.(objectstore.Shared); ok {
		before = before.Add(-2 * s.collectEvery())
		if err := s.sayHere(ctx); err != nil {
			return err
		}
	}
	for {
		ids, err := s.store.Away(ctx, before, collectBatch)
		if err != nil || len(ids) == 0 {
			return err
		}
		var drop []objectstore.ClientID
		var here []objectstore.Touch
		for _, id := range ids {
			if c := s.roster.device(id); c != nil {
				here = append(here, objectstore.Touch{ID: id, SeenAt: s.cfg.Now()}) // connected all the time
			} else {
				drop = append(drop, id)
			}
		}
		if err := s.seen(here); err != nil {
			return err
		}
		n, err := s.store.Drop(ctx, drop, before)
		if err != nil {
			return err
		}
		s.counts.collected.Add(uint64(n))
		if n > 0 {
			s.log.Info("dropped registrations of clients that stay away", "clients", n)
		}
		if len(ids) < collectBatch {
			return nil
		}
	}
}
