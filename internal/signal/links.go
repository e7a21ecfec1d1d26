package signal

import (
	"slices"
	"sync"
)

// linkID is the number of a session that is registered for something. Objects list their sessions by number: that takes
// half the room of a pointer, and the collector need not follow it.
type linkID uint32

// links finds sessions by their numbers. A number is used again once no object lists it any more.
type links struct {
	mu   sync.RWMutex
	all  []*link
	free []linkID
}

// enter gives a session its number, which it holds until leave.
func (t *links) enter(l *link) {
	l.holds.Store(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		l.id, t.free = t.free[n-1], t.free[:n-1]
		t.all[l.id] = l
		return
	}
	l.id = linkID(len(t.all))
	t.all = append(t.all, l)
}

// leave takes back the session's own hold on its number.
func (t *links) leave(l *link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release(l)
}

// release takes back one hold. t.mu is held.
func (t *links) release(l *link) {
	if l.holds.Add(-1) == 0 {
		t.all[l.id] = nil
		t.free = append(t.free, l.id)
	}
}

// get appends the sessions with these numbers.
func (t *links) get(ids []linkID, dst []*link) []*link {
	t.mu.RLock()
	defer t.mu.RUnlock()
	dst = slices.Grow(dst, len(ids))
	for _, id := range ids {
		dst = append(dst, t.all[id])
	}
	return dst
}

// sweep takes those that are over out of a list, all of them if the list itself is.
func (t *links) sweep(ids []linkID, all bool) []linkID {
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

// add lists a session that is registered for the object from now on.
func (w *watched) add(l *link) {
	l.holds.Add(1) // beside its own, so it cannot go meanwhile
	w.mu.Lock()
	w.links = append(w.links, l.id)
	w.mu.Unlock()
}

// left notes that a session which is over was registered here.
func (w *watched) left(t *links) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over++; w.over*2 > len(w.links) {
		w.links = t.sweep(w.links, false)
		w.over = 0
		if cap(w.links) > 4*len(w.links)+8 {
			w.links = slices.Clip(slices.Clone(w.links))
		}
	}
}

// remove takes out one session that goes on without this object.
func (w *watched) remove(t *links, l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.links, l.id); i >= 0 {
		last := len(w.links) - 1
		w.links[i] = w.links[last]
		w.links = w.links[:last]
		t.leave(l)
	}
}

// dismiss empties the list of an object that nobody is registered for any more.
func (w *watched) dismiss(t *links) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.sweep(w.links, true)
	w.links, w.over = nil, 0
}

// sessions appends those that are registered for the object; some may be over.
func (w *watched) sessions(t *links, dst []*link) []*link {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.get(w.links, dst)
}
