package hook

import (
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

// window holds the events that were read and are still to be posted, and those posted after the first of them.
type window struct {
	list  []*posting // oldest first; the first is not posted
	tails map[string]*posting
	reach uint64          // id of the newest event that was read
	skip  map[uint64]bool // later events that were posted before the runner began
}

// posting is an event of the window.
type posting struct {
	event.Event
	state  postState
	before uint64   // id of the event read before this one
	waits  *posting // event of the same recipient that must be posted first; nil: none
}

type postState uint8

const (
	waiting postState = iota
	underway
	posted
)

// newWindow returns the window of a hook with this progress.
func newWindow(p *Progress) window {
	w := window{tails: make(map[string]*posting), reach: p.Cursor, skip: make(map[uint64]bool, len(p.Posted))}
	for _, id := range p.Posted {
		w.skip[id] = true
	}
	return w
}

// add appends an event that was read; wanted: it is to be posted.
func (w *window) add(e *event.Event, wanted bool) {
	if wanted && !w.skip[e.ID] {
		f := &posting{Event: *e, before: w.reach, waits: w.tails[e.To]}
		w.list, w.tails[e.To] = append(w.list, f), f
	} else if wanted && len(w.list) > 0 {
		w.list = append(w.list, &posting{Event: *e, before: w.reach, state: posted})
	}
	delete(w.skip, e.ID)
	w.reach = e.ID
}

// pass notes that the log has no event of the app up to this id.
func (w *window) pass(id uint64) { w.reach = max(w.reach, id) }

// next returns the oldest event that may be posted now; nil: there is none.
func (w *window) next() *posting {
	for _, f := range w.list {
		if f.state == waiting && (f.waits == nil || f.waits.state == posted) {
			return f
		}
	}
	return nil
}

// done notes that an event is posted.
func (w *window) done(f *posting) {
	f.state, f.waits = posted, nil
	if w.tails[f.To] == f {
		delete(w.tails, f.To)
	}
	n := 0
	for n < len(w.list) && w.list[n].state == posted {
		n++
	}
	clear(w.list[:n])
	w.list = w.list[n:]
}

// cursor is the newest event with which the hook has finished, and with all before it.
func (w *window) cursor() uint64 {
	if len(w.list) > 0 {
		return w.list[0].before
	}
	return w.reach
}

// ahead lists the events after the cursor that are posted.
func (w *window) ahead() (ids []uint64) {
	for _, f := range w.list {
		if f.state == posted {
			ids = append(ids, f.ID)
		}
	}
	for id := range w.skip {
		ids = append(ids, id)
	}
	return ids
}

// oldest is the time of the first event that is to be posted; zero: there is none.
func (w *window) oldest() time.Time {
	if len(w.list) > 0 {
		return w.list[0].At
	}
	return time.Time{}
}
