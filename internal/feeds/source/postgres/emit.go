package postgres

import (
	"bytes"
	"context"
	"errors"
	"time"

	"godwit.dev/godwit/internal/feeds/source"
)

// emit stores what has been read.
func (s *stream) emit(ctx context.Context) error {
	noted := time.Now()
	var stored time.Time // the last entries
	for {
		it, oldest, err := s.q.take(ctx)
		if err != nil {
			return errors.Join(err, s.noteEnd(ctx))
		}
		s.lag(oldest)
		if err := s.bound(ctx, &it); err != nil {
			return err
		}
		if err := s.store(ctx, &it); err != nil {
			return err
		}
		if it.end > LSN(s.confirmed.Load()) {
			if err := s.promise(ctx, it.end); err != nil {
				return err
			}
			s.confirmed.Store(uint64(it.end))
			if err := s.status(false); err != nil {
				return err
			}
		}
		s.lag(s.q.oldest())
		if len(it.entries) > 0 {
			stored = time.Now()
		}
		idle := time.Since(stored) > noteEvery
		if lsn := LSN(s.confirmed.Load()); lsn != s.at.LSN && noteDue(time.Since(noted), idle) {
			noted, s.at.LSN = time.Now(), lsn
			if idle { // or else the next entry would have it noted again how far the log may have been read
				s.at.Read, s.at.Bound = lsn, lsn+noteAhead
			}
			if err := s.to.Note(ctx, s.at.encode()); err != nil {
				return err
			}
		}
	}
}

// noteDue reports whether to note how far the source has come, so long after the last time. Entries wait for a note, which waits for the disk, so
// there are few while entries come.
func noteDue(since time.Duration, idle bool) bool {
	if idle {
		return since > noteEvery
	}
	return since > noteBusy
}

// noteAhead is how far ahead of the last commit the position is that is noted as read, so that not each commit is noted.
const noteAhead = 16 << 20

// bound notes how far the log may have been read, before something behind that is stored.
func (s *stream) bound(ctx context.Context, it *item) error {
	if len(it.entries) == 0 {
		return nil
	}
	last := LSN(it.entries[len(it.entries)-1].Version) - s.at.Shift // it was a position
	if last < s.at.Read {
		return nil
	}
	s.at.Read = last + noteAhead
	return s.to.Note(ctx, s.at.encode())
}

// promise notes how far the log may have been confirmed, before it is: a slot that is further has been moved or made anew by somebody else.
func (s *stream) promise(ctx context.Context, end LSN) error {
	if end <= s.at.Bound {
		return nil
	}
	s.at.Bound = end + noteAhead
	return s.to.Note(ctx, s.at.encode())
}

// noteEnd notes how far the log was read when the feed ends between two commits.
func (s *stream) noteEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteEvery)
	defer cancel()
	s.at.Read = LSN(s.confirmed.Load())
	s.at.LSN, s.at.Bound = s.at.Read, s.at.Read
	return s.to.Note(ctx, s.at.encode())
}

func (s *stream) store(ctx context.Context, it *item) error {
	if len(it.entries) > 0 {
		if err := s.remember(ctx, it.entries); err != nil {
			return err
		}
		outcomes, err := s.to.Emit(ctx, it.entries)
		if err != nil {
			return err
		}
		for i, o := range outcomes {
			if o.Fate != source.Full {
				continue
			}
			if err := s.to.SetAside(ctx, &it.entries[i], o.Err); err != nil { // the log cannot wait for one recipient
				return err
			}
		}
	}
	if it.unknown != "" {
		return s.to.Unknown(ctx, it.unknown, it.below)
	}
	return nil
}

// remember notes new groups of objects before their first object is put.
func (s *stream) remember(ctx context.Context, entries []source.Entry) error {
	fresh := false
	for i := range entries {
		if p := entries[i].Put; p != nil {
			fresh = s.at.touch(p.Key.Group) || fresh
		} else if body := entries[i].Body; bytes.Contains(body, []byte(`"put"`)) {
			for _, group := range groups(body) {
				fresh = s.at.touch(group) || fresh
			}
		}
	}
	if !fresh {
		return nil
	}
	return s.to.Note(ctx, s.at.encode())
}

// lag tells how far the source is behind. oldest is the time of the oldest commit that waits; zero: none.
func (s *stream) lag(oldest time.Time) {
	var since int64
	if !oldest.IsZero() {
		since = oldest.UnixNano()
	}
	s.oldest.Store(since)
	s.reportLag()
}

func (s *stream) reportLag() {
	l := source.Lag{Bytes: max(0, int64(s.ahead.Load()-s.confirmed.Load()))} // a difference
	if since := s.oldest.Load(); since != 0 {
		l.Time = max(0, time.Since(time.Unix(0, since)))
	}
	s.to.Lag(l)
}
