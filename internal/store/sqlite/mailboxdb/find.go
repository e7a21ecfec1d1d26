package mailboxdb

import (
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"
)

// known returns a recipient from memory or the table, or nil if there is none.
func (s *Store) known(appName, name string) (*recipient, error) {
	a := s.apps[appName]
	if a == nil {
		return nil, nil
	}
	if r := a.recipient(name); r != nil {
		return r, nil
	}
	st := s.stmts.readRecipient
	st.BindInt64(1, a.key)
	st.BindText(2, name)
	var r *recipient
	err := each(st, func(st *sqlite.Stmt) error {
		r = newRecipient(a, name, st)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read recipient %s: %w", name, err)
	}
	if r != nil {
		s.mu.Lock()
		a.add(r)
		s.mu.Unlock()
		s.counters.idle(r)
		s.tx.newOnes = append(s.tx.newOnes, r) // a sighting in the open transaction may have created its row
	}
	return r, nil
}

func newRecipient(a *app, name string, st *sqlite.Stmt) *recipient {
	seq := uint64(st.ColumnInt64(1))
	return &recipient{app: a, name: name, key: uint32(st.ColumnInt64(0)), lastSeq: seq, shown: seq, slot: -1}
}

// intern returns a recipient, and creates it if the store does not have it.
func (s *Store) intern(appName, name string) (*recipient, error) {
	a, err := s.internApp(appName)
	if err != nil {
		return nil, err
	}
	r, err := s.known(appName, name)
	if err != nil || r != nil {
		return r, err
	}
	st := s.stmts.insertRecipient
	st.BindInt64(1, a.key)
	st.BindText(2, name)
	if err := exec(st); err != nil {
		return nil, fmt.Errorf("store recipient %s: %w", name, err)
	}
	r = &recipient{app: a, name: name, key: uint32(s.stmts.conn.LastInsertRowID()), slot: -1}
	s.mu.Lock()
	a.add(r)
	s.mu.Unlock()
	s.tx.newOnes = append(s.tx.newOnes, r)
	s.touch(r)
	return r, nil
}

// internApp returns an app, and creates it if the store does not have it.
func (s *Store) internApp(name string) (*app, error) {
	if a := s.apps[name]; a != nil {
		return a, nil
	}
	s.stmts.insertApp.BindText(1, name)
	if err := exec(s.stmts.insertApp); err != nil {
		return nil, fmt.Errorf("store app %s: %w", name, err)
	}
	a := &app{key: s.stmts.conn.LastInsertRowID(), name: name}
	s.mu.Lock()
	s.apps[name] = a
	s.mu.Unlock()
	s.tx.newApps = append(s.tx.newApps, a)
	return a, nil
}

// tailFor returns the tail that covers a new position. The caller holds mu.
func (s *Store) tailFor(pos int64) *tail {
	number := pos >> s.cfg.sliceBits
	if n := len(s.tails); n > 0 && s.tails[n-1].number == number {
		return s.tails[n-1]
	}
	t := newTail(number, s.cfg.sliceBits)
	if n := len(s.tails); n > 0 {
		s.tails[n-1].settlements = s.nextSettlement
	}
	s.tails = append(s.tails, t)
	return t
}

// findRow returns the newest row of an id and a recipient, pending or settled, including the open transaction's changes.
func (s *Store) findRow(r *recipient, hash uint32, id string) (found row, ok bool, err error) {
	try := func(pos int64) bool {
		found, ok, err = s.row(pos)
		ok = ok && err == nil && found.recipient == r.key && found.id == id
		return !ok && err == nil
	}
	key := indexKey(hash, r.key)
	s.mu.RLock() // the sealer takes tails away
	tails := s.tails
	s.mu.RUnlock()
	for _, t := range slices.Backward(tails) {
		if !t.find(key, try) {
			return found, ok, err
		}
	}
	if serr := s.sealed.find(s.stmts.conn, key, try); serr != nil {
		return found, false, serr
	}
	return found, ok, err
}
