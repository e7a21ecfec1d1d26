package redisstream

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// took processes the result of a call.
func (s *Store) took(c *call, list []raw, err error) {
	st := c.st
	read := parse(st.key, list)
	now := s.now()
	st.mu.Lock()
	st.reads--
	if err != nil || c.life != st.life {
		if c.life == st.life { // otherwise the client has been offline since, and its stream is read again
			c.err = err
		}
		st.forget()
		st.mu.Unlock()
		return
	}
	before := st.last
	c.more = len(list) >= readEntries
	var out []*departure
	for i := range read {
		if len(st.entries) >= maxEntries {
			st.full, c.more = true, false
			break
		}
		if d := s.takeEntry(c, &read[i], now); d != nil {
			out = append(out, d)
		}
	}
	var lost []entry
	if c.whole {
		lost = s.missing(c, read)
		st.whole = false
	} else if st.last == before {
		c.more = false // another read has returned the same entries
	}
	c.reread, st.reread, st.known = st.reread, false, true
	st.forget()
	s.expireAt(st)
	st.mu.Unlock()
	s.tellLost(st, lost)
	s.leaveLater(st, out)
}

// takeEntry adds a new entry to the stream, whose lock the caller holds. If it returns a departure, that entry must be deleted, not
// delivered.
func (s *Store) takeEntry(c *call, p *parsed, now int64) *departure {
	st := c.st
	if i, is := st.at(p.id); is {
		k := &st.entries[i]
		switch {
		case k.state == stuck:
			k.state = leaving
			return &departure{st: st, why: poisoned, ids: []EntryID{p.id}, poison: p}
		case c.bodies != nil && k.state == waiting && !k.twin:
			c.bodies[p.id] = s.item(st, k, &p.entry)
		}
		return nil
	}
	st.last = later(st.last, p.id)
	if p.err != nil {
		st.insert(entry{id: p.id, state: leaving})
		return &departure{st: st, why: poisoned, ids: []EntryID{p.id}, poison: p}
	}
	s.cfg.Observer.Found(p.entry.Category)
	k := known(&p.entry)
	if k.expires <= now || s.recent.has(st.key, k.note) {
		d := &departure{st: st, why: surplus, ids: []EntryID{k.id}, e: k}
		if k.expires <= now && st.byNote(k.note) == nil {
			d.why = expired
		}
		k.state = leaving
		st.insert(k)
		return d
	}
	if !st.add(&k) {
		return nil
	}
	it := s.item(st, &k, &p.entry)
	c.items = append(c.items, it)
	if c.bodies != nil {
		c.bodies[p.id] = it
	}
	return nil
}

// item returns a session's item for a known entry.
func (s *Store) item(st *stream, known *entry, e *Entry) mailbox.Item {
	return mailbox.Item{
		Pos: known.pos, Recipient: st.client, Seq: uint64(known.pos), Attempts: known.attempts, N: s.notification(e),
	}
}

// notification returns the notification that sessions write. The form of its content is known, so its parts need no JSON parsing.
func (s *Store) notification(e *Entry) *notification.Notification {
	n := e.plain(s.cfg.App)
	frame.SetPayload(n, e.payload())
	return n
}

func later(a, b EntryID) EntryID {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// parsed is a read entry, or the error that makes it unreadable.
type parsed struct {
	id    EntryID
	entry Entry
	raw   raw // of poison
	err   error
}

func parse(key string, list []raw) []parsed {
	out := make([]parsed, 0, len(list))
	for _, r := range list {
		id, err := ParseEntryID(r.id)
		if err != nil {
			continue // not from Redis
		}
		p := parsed{id: id}
		if p.entry, p.err = ParseEntry(key, r.id, r.fields); p.err != nil {
			p.raw = r
		}
		out = append(out, p)
	}
	return out
}

// missing removes the entries that a read from the first entry on should have returned and did not, and returns them. The caller holds the
// stream's lock.
func (s *Store) missing(c *call, read []parsed) []entry {
	found := make(map[EntryID]bool, len(read))
	for i := range read {
		found[read[i].id] = true
	}
	upTo := c.upTo
	if len(read) >= readEntries {
		if newest := read[len(read)-1].id; newest.Compare(upTo) < 0 {
			upTo = newest
		}
	}
	return c.st.vanished(upTo, func(id EntryID) bool { return found[id] })
}

// tellLost makes sessions drop the entries that somebody else has deleted.
func (s *Store) tellLost(st *stream, lost []entry) {
	if len(lost) == 0 {
		return
	}
	done := make([]mailbox.Settled, len(lost))
	for i, e := range lost {
		done[i] = mailbox.Settled{App: s.cfg.App, Recipient: st.client, ID: e.note, Pos: e.pos, As: notification.Expired, At: s.cfg.Now()}
	}
	s.route().Settled(done)
}

// Heads implements mailbox.Reader from memory, without a query to Redis.
func (s *Store) Heads(_ context.Context, of []mailbox.Address) ([]mailbox.Head, error) {
	heads := make([]mailbox.Head, len(of))
	for i, a := range of {
		if st := s.online(a.Recipient); st != nil {
			st.mu.Lock()
			heads[i] = mailbox.Head{LastSeq: uint64(st.pos), Waits: !st.known || st.waits()}
			st.mu.Unlock()
		}
	}
	return heads, nil
}

// asking is one query of Pending, or one query of Items for a single stream, with its result.
type asking struct {
	st     *stream
	chosen []entry
	bodies map[EntryID]mailbox.Item
	failed bool
}

// Pending implements mailbox.Reader. The result lacks entries for which Redis does not answer now: Route delivers them once they can be
// read, or a signal makes sessions read again.
func (s *Store) Pending(ctx context.Context, qs []mailbox.PendingQuery) ([]mailbox.PendingResult, error) {
	out := make([]mailbox.PendingResult, len(qs))
	asks := make([]asking, len(qs))
	for i := range qs {
		asks[i].st = s.online(qs[i].Recipient)
	}
	s.readFirst(ctx, asks)
	now := s.now()
	for i := range asks {
		a := &asks[i]
		if a.st == nil {
			continue
		}
		a.st.mu.Lock()
		if !a.failed {
			a.chosen, out[i].More = a.st.pick(&qs[i], now)
		}
		out[i].LastSeq = uint64(a.st.pos)
		a.st.mu.Unlock()
	}
	s.readBodies(ctx, asks)
	for i := range asks {
		a := &asks[i]
		if a.failed {
			out[i].More = false
			continue
		}
		for _, e := range a.chosen {
			if it, ok := a.bodies[e.id]; ok {
				it.Pos, it.Seq, it.Attempts = e.pos, uint64(e.pos), e.attempts
				out[i].Items = append(out[i].Items, it)
			}
		}
	}
	return out, ctx.Err()
}

// readFirst reads the streams that have not been read since their clients came online.
func (s *Store) readFirst(ctx context.Context, asks []asking) {
	byMaster := make(map[*masterQueue][]*call)
	whose := make(map[*call]*asking)
	for i := range asks {
		a := &asks[i]
		if a.st == nil {
			continue
		}
		a.st.mu.Lock()
		known := a.st.known
		a.st.mu.Unlock()
		if known {
			continue
		}
		l := s.queueOf(a.st)
		c := s.begin(a.st)
		c.bodies = make(map[EntryID]mailbox.Item)
		byMaster[l] = append(byMaster[l], c)
		whose[c] = a
	}
	for l, calls := range byMaster {
		if l.down.Load() {
			for _, c := range calls {
				s.took(c, nil, errDown)
			}
		} else {
			s.carryOut(ctx, l, calls)
		}
		for _, c := range calls {
			a := whose[c]
			a.bodies = c.bodies
			if c.err != nil {
				s.fail(a)
				continue
			}
			s.route().Route(c.items) // to its other sessions
			s.goOn(c)
		}
	}
}

// goOn schedules another read of a stream after its first read, if there are more entries or hints came meanwhile.
func (s *Store) goOn(c *call) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	if c.more || c.st.again {
		c.st.again = false
		s.ask(c.st, true)
	}
}

var errDown = errors.New("no answer from Redis a moment ago")

// fail schedules another read of a stream that could not be read, after which its sessions read again.
func (s *Store) fail(a *asking) {
	a.failed = true
	a.st.mu.Lock()
	a.st.reread = true
	a.st.mu.Unlock()
	s.look(a.st)
}

// readBodies reads the chosen entries that are not in memory.
func (s *Store) readBodies(ctx context.Context, asks []asking) {
	type wanted struct {
		a *asking
		e entry
	}
	byMaster := make(map[*masterQueue][]wanted)
	for i := range asks {
		a := &asks[i]
		if a.st == nil || a.failed {
			continue
		}
		l := (*masterQueue)(nil)
		for _, e := range a.chosen {
			if _, ok := a.bodies[e.id]; ok {
				continue
			}
			if l == nil {
				l = s.queueOf(a.st)
			}
			byMaster[l] = append(byMaster[l], wanted{a, e})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	for l, list := range byMaster {
		for len(list) > 0 {
			batch := take(&list, 4*readBatch)
			cmds := make([]rueidis.Completed, len(batch))
			for i, w := range batch {
				cmds[i] = s.link.rangeOf(w.a.st.key, w.e.id, w.e.id)
			}
			var results []rueidis.RedisResult
			if !l.down.Load() {
				results = s.link.main.DoMulti(ctx, cmds...)
			}
			for i, w := range batch {
				if results == nil {
					s.failOnce(w.a)
					continue
				}
				s.tookBody(w.a, w.e, results[i])
			}
		}
	}
}

func (s *Store) failOnce(a *asking) {
	if !a.failed {
		s.fail(a)
	}
}

// tookBody processes the answer for one entry. If the entry is missing, another client of Redis has deleted it.
func (s *Store) tookBody(a *asking, e entry, res rueidis.RedisResult) {
	list, err := entriesOf(res)
	if err != nil {
		s.failOnce(a)
		return
	}
	if read := parse(a.st.key, list); len(read) == 1 && read[0].err == nil {
		if a.bodies == nil {
			a.bodies = make(map[EntryID]mailbox.Item)
		}
		a.bodies[e.id] = s.item(a.st, &e, &read[0].entry)
		return
	}
	a.st.mu.Lock()
	var lost []entry
	if i, ok := a.st.at(e.id); ok && a.st.entries[i].state == waiting {
		lost = a.st.vanished(e.id, func(id EntryID) bool { return id != e.id })
		a.st.forget()
	}
	a.st.mu.Unlock()
	s.tellLost(a.st, lost)
}

// Items implements mailbox.Reader. An entry that Redis does not return for now is nil, as if it were settled, and is
// sent again once it can be read.
func (s *Store) Items(ctx context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error) {
	out := make([]*mailbox.Item, len(refs))
	asks := make([]asking, len(refs))
	for i, r := range refs {
		st := s.online(r.Recipient)
		if st == nil {
			continue
		}
		st.mu.Lock()
		if e := st.byPos(r.Pos); e != nil {
			asks[i] = asking{st: st, chosen: []entry{*e}}
		}
		st.mu.Unlock()
	}
	s.readBodies(ctx, asks)
	for i := range asks {
		if len(asks[i].chosen) == 1 {
			if it, ok := asks[i].bodies[asks[i].chosen[0].id]; ok {
				out[i] = &it
			}
		}
	}
	return out, ctx.Err()
}

// Lookup implements mailbox.Reader for waiting notifications of a client that is online.
func (s *Store) Lookup(_ context.Context, _, id, to string) ([]mailbox.Record, error) {
	st := s.online(to)
	if st == nil {
		return nil, nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	e := st.byNote(id)
	if e == nil {
		return nil, nil
	}
	r := mailbox.Record{
		ID: id, To: to, Status: notification.Stored, Seq: uint64(e.pos), Pos: e.pos, Attempts: e.attempts,
		CreatedAt: time.UnixMilli(int64(e.id.Ms)), ExpiresAt: time.UnixMilli(e.expires),
	}
	if e.sent != 0 {
		r.Status, r.DeliveredAt = notification.Delivered, time.UnixMilli(e.sent)
	}
	return []mailbox.Record{r}, nil
}

// Mark implements session.Store: it drops clients' answers to notifications that they do not acknowledge.
func (s *Store) Mark([]mailbox.Mark) {}

// Seen implements session.Store: it drops sightings of clients.
func (s *Store) Seen([]mailbox.Seen) {}
