package mailboxdb

import (
	"context"
	"fmt"
	"math"
	"slices"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

const (
	listLimit = 100 // items of a page when the caller names no number
	// maxExamined limits the rows that one page of a history reads if it is filtered by status.
	maxExamined = 1000
)

// Lookup implements mailbox.Store. It fails with mailbox.ErrNotFound when there is no such notification.
func (s *Store) Lookup(ctx context.Context, appName, id, to string) (records []mailbox.Record, err error) {
	return s.lookUp(ctx, appName, id, to, math.MaxInt)
}

// Copies implements mailbox.Copies.
func (s *Store) Copies(ctx context.Context, appName, id string, limit int) (records []mailbox.Record, err error) {
	return s.lookUp(ctx, appName, id, "", limit)
}

func (s *Store) lookUp(ctx context.Context, appName, id, to string, limit int) (records []mailbox.Record, err error) {
	var positions []int64
	mask, key := idMask, indexKey(idHash(appName, id), 0)
	now := s.now()
	look := func(c *sqlite.Conn) error {
		records = records[:0]
		appKey, err := s.appKey(c, appName)
		if err != nil || appKey == 0 {
			return err
		}
		if to != "" {
			info, ok, err := s.readRecipient(c, appName, to)
			if err != nil || !ok {
				return err
			}
			mask, key = ^uint64(0), indexKey(uint32(key>>32), info.key)
		}
		if positions, err = s.positions(c, mask, key); err != nil {
			return err
		}
		return s.readRecords(c, positions, appKey, appName, id, now, to != "", limit, &records)
	}
	if err = s.read(ctx, appName, look); err == nil && to != "" && lacksReply(records) {
		err = s.read(ctx, appName, look)
	}
	if err != nil {
		return nil, storeError("look up notification "+id, err)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("notification %s: %w", id, mailbox.ErrNotFound)
	}
	return records, nil
}

// lacksReply reports whether a reply was stored after the read of records had begun: their latest outcomes come from memory.
func lacksReply(records []mailbox.Record) bool {
	return slices.ContainsFunc(records, func(r mailbox.Record) bool { return r.Status == notification.Replied && r.Reply == nil })
}

// positions returns the positions whose key matches key under mask, oldest first. Some may belong to other ids with the same hash.
func (s *Store) positions(c *sqlite.Conn, mask, key uint64) (positions []int64, err error) {
	collect := func(pos int64) bool {
		positions = append(positions, pos)
		return true
	}
	s.mu.RLock()
	for _, t := range s.tails {
		if mask == ^uint64(0) {
			t.find(key, collect)
		} else {
			t.scan(mask, key, collect)
		}
	}
	s.mu.RUnlock()
	if err := s.sealed.match(c, mask, key, collect); err != nil {
		return nil, err
	}
	slices.Sort(positions)
	return slices.Compact(positions), nil
}

// readRecords reads the state of up to limit copies. It adds replies and attempts only if the lookup is for a single recipient: for a
// thousand they would be too much.
func (s *Store) readRecords(c *sqlite.Conn, positions []int64, appKey int64, appName, id string, now int64, alone bool, limit int, to *[]mailbox.Record) error {
	copies, err := s.copiesOn(c)
	if err != nil {
		return err
	}
	name, err := c.Prepare("SELECT name FROM recipient WHERE key = ?1 AND app = ?2")
	if err != nil {
		return err
	}
	nack, err := c.Prepare(selectNack)
	if err != nil {
		return err
	}
	for _, pos := range positions {
		if len(*to) == limit {
			break
		}
		row, ok, err := copies.read(pos)
		if err != nil {
			return err
		}
		if !ok || row.id != id {
			continue
		}
		name.BindInt64(1, int64(row.recipient))
		name.BindInt64(2, appKey)
		err = each(name, func(st *sqlite.Stmt) error {
			*to = append(*to, row.record(st.ColumnText(0), now))
			rec := &(*to)[len(*to)-1]
			if err := readNacks(nack, rec); err != nil || !alone {
				return err
			}
			if err := s.tellTried(c, &row, appName, rec); err != nil {
				return err
			}
			return readReply(c, rec)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) appKey(c *sqlite.Conn, name string) (key int64, err error) {
	st, err := c.Prepare("SELECT key FROM app WHERE name = ?1")
	if err != nil {
		return 0, err
	}
	st.BindText(1, name)
	err = each(st, func(st *sqlite.Stmt) error {
		key = st.ColumnInt64(0)
		return nil
	})
	return key, err
}

// History implements mailbox.Store.
func (s *Store) History(ctx context.Context, appName, name string, status notification.Status, limit int, cursor int64) (items []mailbox.Record, next int64, err error) {
	if limit <= 0 {
		limit = listLimit
	}
	if cursor <= 0 {
		cursor = 1<<63 - 1
	}
	now, from := s.now(), cursor
	err = s.read(ctx, appName, func(c *sqlite.Conn) error {
		items, next, cursor = items[:0], 0, from
		info, ok, err := s.readRecipient(c, appName, name)
		if err != nil || !ok {
			return err
		}
		copies, err := s.copiesOn(c)
		if err != nil {
			return err
		}
		nack, err := c.Prepare(selectNack)
		if err != nil {
			return err
		}
		examined := 0
		visit := func(pos int64) bool {
			if pos >= cursor {
				return true
			}
			if len(items) == limit || examined == maxExamined {
				next = cursor
				return false
			}
			examined++
			cursor = pos
			var r row
			if r, ok, err = copies.read(pos); ok && r.recipient == info.key {
				if rec := r.record(name, now); status == 0 || rec.Status == status {
					err = readNacks(nack, &rec)
					items = append(items, rec)
				}
			}
			return err == nil
		}
		if verr := s.eachOf(c, info.key, cursor, visit); verr != nil {
			return verr
		}
		return err
	})
	if err != nil {
		return nil, 0, storeError("list notifications of "+name, err)
	}
	return items, next, nil
}

// eachOf calls yield with the positions of a recipient's rows before a position, newest first, until yield returns false.
func (s *Store) eachOf(c *sqlite.Conn, recipient uint32, before int64, yield func(pos int64) bool) error {
	var recent []int64
	first := before>>s.cfg.sliceBits + 1 // number of the oldest slice in memory
	s.mu.RLock()
	for _, t := range slices.Backward(s.tails) {
		first = min(first, t.number)
		if t.pos(0) < before {
			t.scan(recipientMask, uint64(recipient), func(pos int64) bool {
				recent = append(recent, pos)
				return true
			})
		}
	}
	s.mu.RUnlock()
	for _, pos := range recent {
		if !yield(pos) {
			return nil
		}
	}
	return s.sealed.eachOf(c, recipient, first, yield)
}
