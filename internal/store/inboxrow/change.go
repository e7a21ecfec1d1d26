package inboxrow

import (
	"cmp"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/store/millis"
)

// New is an item that comes into an inbox.
type New struct {
	ID, Category, CollapseKey string
	Content                   int64 // position of its content
	CreatedAt                 int64 // ms
	Keep                      time.Duration
}

// Add puts an item into the inbox. It takes the place of those with its collapse key, and of the oldest if the inbox is full.
func (b *Box) Add(rows Rows, n New) error {
	b.dirty = true
	moved := b.changed.moved
	if err := b.Replace(rows, n.CollapseKey); err != nil {
		return err
	}
	if b.total >= inbox.MaxKept {
		if err := b.dropOldest(rows); err != nil {
			return err
		}
	}
	b.changed.moved = moved // what this item has driven out is no change of its own
	b.places++
	e := entry{
		place: b.places, content: n.Content, id: identOf(n.ID), category: b.category(n.Category), created: n.CreatedAt, keep: uint64(max(1, n.Keep/time.Minute)), // positive
		key: hashKey(n.CollapseKey),
	}
	b.push(&e)
	b.count(&e, 1)
	b.changed.add(n.ID)
	if b.head.size() > maxHead {
		return b.spill(rows)
	}
	return nil
}

// Replace removes the items with a collapse key.
func (b *Box) Replace(rows Rows, collapseKey string) error {
	key := hashKey(collapseKey)
	if key == 0 {
		return nil
	}
	_, err := b.remove(rows, func(p *part) bool { return p.keyed > 0 }, func(e *entry) bool { return e.key == key })
	return err
}

// Remove removes the items of an id, and returns how many there were.
func (b *Box) Remove(rows Rows, id string) (n int, err error) {
	wanted := identOf(id)
	return b.remove(rows, anyPart, func(e *entry) bool { return e.id == wanted })
}

// Expire removes what is kept no more at a time.
func (b *Box) Expire(rows Rows, now time.Time) (n int, err error) {
	m := millis.Of(now) / minute
	return b.remove(rows, func(p *part) bool { return p.until <= m }, func(e *entry) bool { return e.until() <= m })
}

// Erase removes everything, and the inbox itself.
func (b *Box) Erase(rows Rows) error {
	if _, err := b.remove(rows, anyPart, func(*entry) bool { return true }); err != nil {
		return err
	}
	b.dirty = false
	return rows.Delete(b.key)
}

func anyPart(*part) bool { return true }

// remove removes the entries for which gone returns true. in tells the parts that may have some.
func (b *Box) remove(rows Rows, in func(*part) bool, gone func(*entry) bool) (n int, err error) {
	release := func(list []entry) ([]entry, error) {
		kept := list[:0]
		for i := range list {
			e := list[i]
			if !gone(&e) {
				kept = append(kept, e)
				continue
			}
			n++
			b.dirty = true
			b.count(&e, -1)
			b.changed.moved = b.changed.moved || e.unseen()
			b.changed.add(e.id.String())
			b.changed.unmark(e.id.String())
			if err := rows.Release(e.content); err != nil {
				return nil, err
			}
		}
		return kept, nil
	}
	for i := range b.parts {
		p := &b.parts[i]
		if !in(p) {
			continue
		}
		list, err := b.part(rows, p)
		if err != nil {
			return n, err
		}
		was := n
		if list, err = release(list); err != nil {
			return n, err
		}
		if n > was {
			if err := b.save(rows, p, list); err != nil {
				return n, err
			}
		}
	}
	b.parts = slices.DeleteFunc(b.parts, func(p part) bool { return p.n == 0 })
	newest, err := b.newest()
	if err == nil {
		b.head.entries, err = release(newest)
	}
	return n, err
}

// dropOldest removes the oldest entry that is not pinned, or the oldest one.
func (b *Box) dropOldest(rows Rows) error {
	for i := range b.parts {
		list, err := b.part(rows, &b.parts[i])
		if err != nil {
			return err
		}
		for _, e := range list {
			if !e.pinned {
				return b.drop(rows, i, e.place)
			}
		}
	}
	newest, err := b.newest()
	if err != nil {
		return err
	}
	for _, e := range newest {
		if !e.pinned {
			return b.drop(rows, -1, e.place)
		}
	}
	if len(b.parts) == 0 {
		return b.drop(rows, -1, newest[0].place)
	}
	return b.drop(rows, 0, b.loaded[b.parts[0].id][0].place)
}

// drop removes the entry of a place, in a part, or in the head if that is -1.
func (b *Box) drop(rows Rows, in int, place uint64) error {
	_, err := b.remove(rows, func(p *part) bool { return in >= 0 && p == &b.parts[in] }, func(e *entry) bool { return e.place == place })
	return err
}

// Mark changes items, and returns how many it has selected; those that are as they should be count as well.
func (b *Box) Mark(rows Rows, m *inbox.Mark) (n int, err error) {
	id := identOf(m.ID)
	apply := func(list []entry) (changed bool) {
		for i := range slices.Backward(list) {
			e := &list[i]
			if !b.selected(m, id, e) {
				continue
			}
			n++
			changed = b.mark(e, m) || changed
			if m.ID != "" {
				break
			}
		}
		return changed
	}
	newest, err := b.newest()
	if err != nil {
		return 0, err
	}
	if apply(newest) {
		b.dirty = true
	}
	for i := len(b.parts) - 1; i >= 0 && (m.ID == "" || n == 0); i-- {
		p := &b.parts[i]
		if m.ID == "" && !p.concerned(m) {
			continue
		}
		list, err := b.part(rows, p)
		if err != nil {
			return n, err
		}
		if apply(list) {
			b.dirty = true
			if err := b.save(rows, p, list); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// concerned reports whether a change of a range may change something in a part.
func (p *part) concerned(m *inbox.Mark) bool {
	if p.last < m.From {
		return false
	}
	if m.Archived != nil || m.Pinned != nil || m.Seen != nil && !*m.Seen || m.Read != nil && !*m.Read {
		return true
	}
	return m.Seen != nil && p.unseen > 0 || m.Read != nil && p.unread > 0
}

func (b *Box) selected(m *inbox.Mark, id ident, e *entry) bool {
	if m.ID != "" {
		return e.id == id
	}
	return e.place >= m.From && e.place <= m.To && (m.Category == nil || b.categories[e.category].name == *m.Category) && e.archived == 0
}

// mark changes one entry, and reports whether anything has changed.
func (b *Box) mark(e *entry, m *inbox.Mark) bool {
	was := *e
	at := max(1, millis.Of(m.At))
	set := func(to *int64, is *bool) {
		switch {
		case is == nil:
		case !*is:
			*to = 0
		case *to == 0:
			*to = at
		}
	}
	set(&e.seen, m.Seen)
	set(&e.read, m.Read)
	set(&e.archived, m.Archived)
	if (e.read > 0 || e.archived > 0) && e.seen == 0 && (m.Seen == nil || *m.Seen) {
		e.seen = at
	}
	if e.seen == 0 { // nobody has read what nobody has seen
		e.read = 0
	}
	if m.Pinned != nil {
		e.pinned = *m.Pinned
	}
	if m.Answered != "" && e.answer == "" { // the publisher got the first answer
		e.answer, e.answered = m.Answered, at
		e.read, e.seen = cmp.Or(e.read, at), cmp.Or(e.seen, at)
	}
	if *e == was {
		return false
	}
	b.count(&was, -1)
	b.count(e, 1)
	b.changed.moved = b.changed.moved || was.unseen() != e.unseen()
	b.changed.add(e.id.String())
	b.changed.mark(e)
	r := inbox.Ref{ID: e.id.String(), Category: b.categories[e.category].name, Alone: m.ID != ""}
	for _, s := range [...]struct {
		was, is int64
		to      *[]inbox.Ref
	}{{was.seen, e.seen, &b.changed.seen}, {was.read, e.read, &b.changed.read}, {was.archived, e.archived, &b.changed.archived}} {
		if s.was == 0 && s.is > 0 {
			*s.to = append(*s.to, r)
		}
	}
	return true
}
