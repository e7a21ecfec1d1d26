package redisstream

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"godwit.dev/godwit/internal/engine/pause"
)

// Intervals of reading streams without a hint, and limits of cleaning up after clients that stay offline.
const (
	sweepEvery     = 30 * time.Second
	pollEvery      = time.Second // if neither Redis nor publishers report new entries
	orphanAfter    = time.Minute // an entry is deleted only this long after its expiry
	orphanKeys     = 500         // looked at in a second
	orphanEntries  = 16          // entries of one stream deleted together
	orphanRounds   = 64          // such batches for one stream, after which it waits for the next scan
	orphanEvery    = time.Minute // pause between two scans of all keys
	orphanLock     = "godwit:orphans"
	orphanLockFor  = time.Minute
	orphanLockKeep = orphanLockFor / 3
)

// sweep reads every online client's stream twice a minute, bucket by bucket, until ctx ends. Without hints of new entries it reads all
// streams every second.
func (s *Store) sweep(ctx context.Context) {
	var some []*stream
	polled := time.Now()
	for i := 0; pause.For(ctx, sweepEvery/buckets); i = (i + 1) % buckets {
		some = s.buckets[i].all(some[:0])
		for _, st := range some {
			s.look(st)
		}
		if s.finder.way == ByPoll && time.Since(polled) >= pollEvery {
			polled = time.Now()
			s.poll()
		}
	}
}

func (s *Store) poll() {
	var some []*stream
	for i := range s.buckets {
		some = s.buckets[i].all(some[:0])
		for _, st := range some {
			st.mu.Lock()
			if st.known {
				s.ask(st, true)
			}
			st.mu.Unlock()
		}
	}
}

// cleanUp deletes expired entries of offline clients until ctx ends. If there are several servers, one of them does so.
func (s *Store) cleanUp(ctx context.Context) {
	lock := &orphanage{s: s, me: rand.Text()}
	for {
		if err := lock.clean(ctx); err != nil && ctx.Err() == nil {
			s.log.DebugContext(ctx, "looking for expired entries failed, will try again", "error", err)
		}
		if !pause.For(ctx, orphanEvery) {
			return
		}
	}
}

// orphanage is one server's state for cleaning up: its name, and when it must renew the lock.
type orphanage struct {
	s     *Store
	me    string
	until time.Time // when the lock has to be renewed
}

// own acquires or renews the lock, and reports whether this server has it.
func (o *orphanage) own(ctx context.Context) (bool, error) {
	if time.Now().Before(o.until) {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	main := o.s.link.main
	taken := main.Do(ctx, main.B().Set().Key(orphanLock).Value(o.me).Nx().Px(orphanLockFor).Build()).Error()
	if taken != nil && !isNil(taken) {
		return false, taken
	}
	if taken != nil {
		owner, err := main.Do(ctx, main.B().Get().Key(orphanLock).Build()).ToString()
		if err != nil || owner != o.me {
			return false, err
		}
		if err := main.Do(ctx, main.B().Pexpire().Key(orphanLock).Milliseconds(orphanLockFor.Milliseconds()).Build()).Error(); err != nil {
			return false, err
		}
	}
	o.until = time.Now().Add(orphanLockKeep)
	return true, nil
}

// clean scans all keys once, if it is this server's turn.
func (o *orphanage) clean(ctx context.Context) error {
	if mine, err := o.own(ctx); !mine {
		return err
	}
	t, err := o.s.link.topology(ctx)
	if err != nil {
		return err
	}
	for _, master := range t.masters {
		if err := o.s.link.scan(ctx, master, orphanKeys, o.cleanKeys); err != nil {
			return err
		}
	}
	return nil
}

// cleanKeys deletes expired entries of streams whose clients are not online here.
func (o *orphanage) cleanKeys(ctx context.Context, keys []string) error {
	if mine, err := o.own(ctx); !mine {
		return fmt.Errorf("another server cleans up: %w", err)
	}
	s := o.s
	for rounds := 0; len(keys) > 0 && rounds < orphanRounds; rounds++ {
		var cmds []rueidis.Completed
		asked := keys[:0]
		for _, key := range keys {
			if client, _, _ := ClientOf(key); s.online(client) == nil {
				asked = append(asked, key)
				cmds = append(cmds, s.link.rangeFrom(key, EntryID{}, orphanEntries))
			}
		}
		var err error
		if keys, err = o.cleanStreams(ctx, asked, cmds); err != nil {
			return err
		}
	}
	return nil
}

// cleanStreams deletes expired entries of a few streams, and returns the streams that may have more of them.
func (o *orphanage) cleanStreams(ctx context.Context, keys []string, reads []rueidis.Completed) (more []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	s := o.s
	var dels []rueidis.Completed
	var categories []string
	before := s.cfg.Now().Add(-orphanAfter)
	for i, res := range s.link.main.DoMulti(ctx, reads...) {
		list, err := entriesOf(res)
		if err != nil {
			return nil, err
		}
		n := 0
		for _, p := range parse(keys[i], list) {
			if e := &p.entry; p.err == nil && e.ExpiresAt.Before(before) {
				dels = append(dels, s.link.main.B().Xdel().Key(keys[i]).Id(e.ID.String()).Build())
				categories = append(categories, e.Category)
				n++
			}
		}
		if n == orphanEntries {
			more = append(more, keys[i])
		}
	}
	for i, res := range s.link.main.DoMulti(ctx, dels...) {
		n, err := res.AsInt64()
		if err != nil {
			return nil, err
		}
		if n > 0 { // nobody else was quicker
			s.cfg.Observer.Expired(categories[i], false)
		}
	}
	return more, nil
}
