package mailboxdb

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// sealSlice is how many index blocks, of 4 KB each, one commit writes.
const sealSlice = 100

// keepSealed runs on the sealer's goroutine: it loads the filters of the slices found at start, completes erasures that a crash
// interrupted, and then seals slices as they fill up.
func (s *Store) keepSealed(ctx context.Context) {
	if err := s.loadFilters(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Log.Error("id filters could not be read; ids are looked up without", "error", err)
	}
	if err := s.resumeErasures(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Log.Error("interrupted erasures could not be finished", "error", err)
	}
	for {
		for t := s.fullTail(); t != nil; t = s.fullTail() {
			if err := s.seal(ctx, t); err != nil {
				if ctx.Err() == nil {
					s.cfg.Log.Warn("index slice could not be sealed; it stays in memory", "slice", t.number, "error", err)
				}
				break
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.seals:
		}
	}
}

// fullTail returns the oldest tail if all its rows have committed and newer rows fill the next tail; else nil.
func (s *Store) fullTail() *tail {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.tails) > 1 && s.tails[0].number < s.shownPos>>s.cfg.sliceBits {
		return s.tails[0]
	}
	return nil
}

// seal writes a slice's index in small commits, the slice's own row last, and frees its tail. It overwrites blocks of an earlier attempt
// that a crash interrupted.
func (s *Store) seal(ctx context.Context, t *tail) error {
	if err := s.fold(ctx, t); err != nil {
		return err
	}
	fences, filter, err := writeSlice(ctx, s.db, t)
	if err != nil {
		return err
	}
	s.still.Lock()
	s.sealed.add(&sealedSlice{number: t.number, fences: fences}, filter)
	s.still.Unlock()
	s.mu.Lock()
	s.tails = slices.Clone(s.tails[1:])
	s.mu.Unlock()
	return s.dropSettlements(ctx, t.settlements)
}

// writeSlice writes the index of a slice.
func writeSlice(ctx context.Context, db *sqlitedb.DB, t *tail) (fences [2][]uint64, filter []byte, err error) {
	keys := t.keys[:t.n]
	runs := [2]sortedRun{makeRun(keys, ^uint64(0)), makeRun(keys, recipientMask)}
	filter = makeFilter(keys, filterSize(t.bits))
	for run, r := range runs {
		block := 0
		for chunk := range slices.Chunk(r.blocks, sealSlice) {
			err := db.DoBulk(ctx, len(chunk), func(c *sqlite.Conn) error { return writeBlocks(c, t.number, run, block, chunk) })
			if err != nil {
				return fences, nil, err
			}
			block += len(chunk)
		}
		fences[run] = r.fences
	}
	err = db.DoBulk(ctx, 1, func(c *sqlite.Conn) error {
		st, err := c.Prepare("INSERT OR REPLACE INTO slice(number, filter, ids, owners) VALUES (?1, ?2, ?3, ?4)")
		if err != nil {
			return err
		}
		st.BindInt64(1, t.number)
		st.BindBytes(2, filter)
		st.BindBytes(3, encodeKeys(fences[runIDs]))
		st.BindBytes(4, encodeKeys(fences[runOwners]))
		return exec(st)
	})
	return fences, filter, err
}

func writeBlocks(c *sqlite.Conn, number int64, run, first int, blocks [][]byte) error {
	st, err := c.Prepare("INSERT OR REPLACE INTO block(key, data) VALUES (?1, ?2)")
	if err != nil {
		return err
	}
	for i, data := range blocks {
		st.BindInt64(1, blockKey(number, run, first+i))
		st.BindBytes(2, data)
		if err := exec(st); err != nil {
			return err
		}
	}
	return nil
}

// loadFilters loads the filters of the slices found at start. Until then ids are searched in every slice.
func (s *Store) loadFilters(ctx context.Context) error {
	for _, slice := range s.sealed.all() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := s.db.Read(ctx, func(c *sqlite.Conn) error {
			st, err := c.Prepare("SELECT filter FROM slice WHERE number = ?1")
			if err != nil {
				return err
			}
			st.BindInt64(1, slice.number)
			return each(st, func(st *sqlite.Stmt) error {
				filter := blob(st, 0)
				if len(filter) != 1<<s.sealed.filterSize()/8 {
					return fmt.Errorf("filter of slice %d has %d bytes", slice.number, len(filter))
				}
				slice.group.set(slice.column, filter)
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read is db.ReadFor for functions that use the sealed index: it reads again if the index has changed since the snapshot was taken, the last
// time while nothing changes it.
func (s *Store) read(ctx context.Context, app string, fn func(*sqlite.Conn) error) (err error) {
	for range 3 {
		if err = s.db.ReadFor(ctx, app, fn); !errors.Is(err, errStale) {
			return err
		}
	}
	s.still.RLock()
	defer s.still.RUnlock()
	if err = s.db.ReadFor(ctx, app, fn); errors.Is(err, errStale) {
		return fmt.Errorf("the index of stored copies is damaged: %w", err)
	}
	return err
}
