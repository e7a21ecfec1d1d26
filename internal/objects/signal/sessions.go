package signal

import (
	"slices"
	"sync"
)

// sessionID is the number of a session that is registered for objects. Objects list their sessions by number, which takes half the memory
// of a pointer, and which the garbage collector need not follow.
type sessionID uint32

// sessionTable finds sessions by their numbers. A number is used again when no object lists it any more.
type sessionTable struct {
	mu   sync.RWMutex
	all  []*liveSession
	free []sessionID
}

// enter assigns a number to a session; it stays in use until leave.
func (t *sessionTable) enter(l *liveSession) {
	l.holds.Store(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		l.id, t.free = t.free[n-1], t.free[:n-1]
		t.all[l.id] = l
		return
	}
	l.id = sessionID(len(t.all))
	t.all = append(t.all, l)
}

// leave ends the session's own use of its number.
func (t *sessionTable) leave(l *liveSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release(l)
}

// release ends one use of a session's number, which is free after the last use. t.mu is held.
func (t *sessionTable) release(l *liveSession) {
	if l.holds.Add(-1) == 0 {
		t.all[l.id] = nil
		t.free = append(t.free, l.id)
	}
}

// get appends the sessions with these numbers to dst.
func (t *sessionTable) get(ids []sessionID, dst []*liveSession) []*liveSession {
	t.mu.RLock()
	defer t.mu.RUnlock()
	dst = slices.Grow(dst, len(ids))
	for _, id := range ids {
		dst = append(dst, t.all[id])
	}
	return dst
}

// sweep removes ended sessions from a list, or all sessions if the list itself is dropped.
func (t *sessionTable) sweep(ids []sessionID, all bool) []sessionID {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := ids[:0]
	for _, id := range ids {
		if l := t.all[id]; all || l.over.Load() {
			t.release(l)
		} else {
			kept = append(kept, id)
		}
	}
	return kept
}

// add adds a session that is now registered for the object.
func (w *watched) add(l *liveSession) {
	l.holds.Add(1) // in addition to the session's own use, so the number stays in use meanwhile
	w.mu.Lock()
	w.sessions = append(w.sessions, l.id)
	w.mu.Unlock()
}

// left records that a session which is registered here has ended.
func (w *watched) left(t *sessionTable) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over++; w.over*2 > len(w.sessions) {
		w.sessions = t.sweep(w.sessions, false)
		w.over = 0
		if cap(w.sessions) > 4*len(w.sessions)+8 {
			w.sessions = slices.Clip(slices.Clone(w.sessions))
		}
	}
}

// remove removes a session that has ended its registration for this object.
func (w *watched) remove(t *sessionTable, l *liveSession) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.sessions, l.id); i >= 0 {
		last := len(w.sessions) - 1
		w.sessions[i] = w.sessions[last]
		w.sessions = w.sessions[:last]
		t.leave(l)
	}
}

// dismiss empties the list of an object that has no registrations any more.
func (w *watched) dismiss(t *sessionTable) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.sweep(w.sessions, true)
	w.sessions, w.over = nil, 0
}

// listed appends the sessions registered for the object to dst; some may have ended.
func (w *watched) listed(t *sessionTable, dst []*liveSession) []*liveSession {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.get(w.sessions, dst)
}
