package mailboxdb

import (
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/notes"
)

const (
	pendingChunk = 256  // queries per snapshot: a read must not hold the log for long
	pendingLimit = 1000 // copies in one answer if the query has no limit
)

// Pending implements mailbox.Store.
func (s *Store) Pending(ctx context.Context, qs []mailbox.PendingQuery) ([]mailbox.PendingResult, error) {
	results := make([]mailbox.PendingResult, len(qs))
	for from := 0; from < len(qs); from += pendingChunk {
		to := min(len(qs), from+pendingChunk)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("read pending notifications: %w", context.Cause(ctx))
		}
		if err := s.pendingChunk(ctx, qs[from:to], results[from:to]); err != nil {
			return nil, storeError("read pending notifications", err)
		}
	}
	return results, nil
}

// candidate is a copy that the index returns for a query.
type candidate struct {
	query int
	pos   int64
	all   bool // ack mode "all": the query's device may have acknowledged it
}

func (s *Store) pendingChunk(ctx context.Context, qs []mailbox.PendingQuery, results []mailbox.PendingResult) error {
	now := s.now()
	var wanted []candidate
	var absent []int // recipients not in memory: they have nothing pending, but a seq
	s.mu.RLock()
	for i := range qs {
		r := s.inMemory(qs[i].App, qs[i].Recipient)
		if r == nil {
			if s.apps[qs[i].App] != nil {
				absent = append(absent, i)
			}
			continue
		}
		results[i].LastSeq = r.shown
		wanted = r.pick(wanted, i, &qs[i], now)
	}
	s.mu.RUnlock()
	if len(wanted)+len(absent) == 0 {
		return nil
	}
	return s.read(ctx, qs[0].App, func(c *sqlite.Conn) error {
		for i := range results {
			results[i].Items, results[i].More = nil, false
		}
		for _, i := range absent {
			info, _, err := s.readRecipient(c, qs[i].App, qs[i].Recipient)
			if err != nil {
				return err
			}
			results[i].LastSeq = info.lastSeq
		}
		return s.readPending(c, qs, results, wanted, now)
	})
}

func (s *Store) inMemory(appName, name string) *recipient {
	if a := s.apps[appName]; a != nil {
		return a.recipient(name)
	}
	return nil
}

// pick appends the copies that a query should get, by priority, then seq, and one more than its limit.
func (r *recipient) pick(to []candidate, query int, q *mailbox.PendingQuery, now int64) []candidate {
	left := limitOf(q.Limit) + 1
	const classes = flagHigh | flagLow
	for _, class := range []uint64{flagHigh, 0, flagLow} {
		for i := range r.list {
			e := &r.list[i]
			if e.bits&classes != class || !e.visible(now) {
				continue
			}
			if _, have := slices.BinarySearch(q.Have, e.pos); have {
				continue
			}
			all := e.is(flagAckAll) && q.Device != ""
			to = append(to, candidate{query: query, pos: e.pos, all: all})
			if !all { // copies with ack mode "all" may be filtered out later
				left--
			}
			if left <= 0 {
				return to
			}
		}
	}
	return to
}

func limitOf(n int) int {
	if n <= 0 {
		return pendingLimit
	}
	return n
}

func (s *Store) readPending(c *sqlite.Conn, qs []mailbox.PendingQuery, results []mailbox.PendingResult, wanted []candidate, now int64) error {
	rd, err := s.newReader(c)
	if err != nil {
		return err
	}
	last, bytes := -1, 0
	for _, w := range wanted { // copies of one query are adjacent
		q, res := &qs[w.query], &results[w.query]
		if w.query != last {
			last, bytes = w.query, 0
		}
		if len(res.Items) >= limitOf(q.Limit) || q.Bytes > 0 && bytes >= q.Bytes {
			res.More = true
			continue
		}
		if w.all {
			acked, err := rd.hasAcked(w.pos, q.Device)
			if err != nil {
				return err
			}
			if acked {
				continue
			}
		}
		item, err := rd.item(w.pos, q.App, q.Recipient, now)
		if err != nil {
			return err
		}
		if item != nil {
			res.Items = append(res.Items, *item)
			bytes += len(item.N.Content.Title) + len(item.N.Content.Body) + len(item.N.Content.Data)
		}
	}
	return nil
}

// reader reads copies on one reading connection.
type reader struct {
	notes    *notes.Notes
	copies   *copies
	acked    *sqlite.Stmt
	contents contents
}

func (s *Store) newReader(c *sqlite.Conn) (*reader, error) {
	copies, err := s.copiesOn(c)
	if err != nil {
		return nil, err
	}
	acked, err := c.Prepare("SELECT 1 FROM device_ack WHERE pos = ?1 AND device = ?2")
	if err != nil {
		return nil, err
	}
	content, err := c.Prepare("SELECT body FROM content WHERE pos = ?1")
	if err != nil {
		return nil, err
	}
	return &reader{notes: &s.notes.Notes, copies: copies, acked: acked, contents: contents{stmt: content}}, nil
}

func (rd *reader) hasAcked(pos int64, device string) (acked bool, err error) {
	rd.acked.BindInt64(1, pos)
	rd.acked.BindText(2, device)
	err = each(rd.acked, func(*sqlite.Stmt) error {
		acked = true
		return nil
	})
	return acked, err
}

// item reads a pending copy; nil if it has been settled or has expired since the index returned it.
func (rd *reader) item(pos int64, app, to string, now int64) (*mailbox.Item, error) {
	row, ok, err := rd.copies.read(pos)
	if err != nil || !ok || !row.open || row.seq == 0 || row.expires <= now {
		return nil, err
	}
	item, ok, err := rd.contents.item(&row, app, to)
	if err != nil || !ok {
		return nil, err
	}
	item.Attempts = max(item.Attempts, rd.notes.PeekMark(pos).Attempts)
	return &item, nil
}

// Items implements mailbox.Store.
func (s *Store) Items(ctx context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error) {
	items := make([]*mailbox.Item, len(refs))
	for from := 0; from < len(refs); from += pendingChunk {
		to := min(len(refs), from+pendingChunk)
		if err := s.readItems(ctx, refs[from:to], items[from:to]); err != nil {
			return nil, storeError("read notifications", err)
		}
	}
	return items, nil
}

func (s *Store) readItems(ctx context.Context, refs []mailbox.Ref, items []*mailbox.Item) error {
	now := s.now()
	var there []int
	s.mu.RLock()
	for i, ref := range refs {
		if r := s.inMemory(ref.App, ref.Recipient); r != nil && r.holds(ref.Pos, now) {
			there = append(there, i)
		}
	}
	s.mu.RUnlock()
	if len(there) == 0 {
		return nil
	}
	return s.read(ctx, refs[0].App, func(c *sqlite.Conn) error {
		rd, err := s.newReader(c)
		if err != nil {
			return err
		}
		for _, i := range there {
			if items[i], err = rd.item(refs[i].Pos, refs[i].App, refs[i].Recipient, now); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *recipient) holds(pos, now int64) bool {
	for i := range r.list {
		if e := &r.list[i]; e.pos == pos {
			return e.visible(now)
		}
	}
	return false
}
