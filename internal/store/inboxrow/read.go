package inboxrow

import (
	"fmt"
	"time"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/millis"
)

// Found is an item without its content.
type Found struct {
	inbox.Item
	At int64 // position of its content
}

// Fill adds the content, as package content writes it.
func (f *Found) Fill(data []byte) (err error) {
	if data == nil {
		return fmt.Errorf("inbox: content %d of notification %s: %w", f.At, f.ID, errDamaged)
	}
	if f.Content, err = content.Decode(data); err != nil {
		return fmt.Errorf("inbox: content %d of notification %s: %w", f.At, f.ID, err)
	}
	return nil
}

// Newest is the place of the newest item that there has been.
func (b *Box) Newest() uint64 { return b.places }

// Query lists items, newest first.
func (b *Box) Query(rows Rows, q *inbox.Query) (list []Found, more bool, err error) {
	take := func(entries []entry) (full bool) {
		for i := len(entries) - 1; i >= 0; i-- {
			e := &entries[i]
			if q.Before != 0 && e.place >= q.Before || !b.matches(q, e) {
				continue
			}
			if len(list) == q.Limit {
				more = true
				return true
			}
			list = append(list, Found{e.item(), e.content})
		}
		return false
	}
	newest, err := b.newest()
	if err != nil || take(newest) {
		return list, more, err
	}
	for i := len(b.parts) - 1; i >= 0; i-- {
		p := &b.parts[i]
		first := uint64(1)
		if i > 0 {
			first = b.parts[i-1].last + 1
		}
		if q.Before != 0 && first >= q.Before || q.State == inbox.Unseen && p.unseen == 0 || q.State == inbox.Unread && p.unread == 0 {
			continue
		}
		entries, err := b.part(rows, p)
		if err != nil {
			return nil, false, err
		}
		if take(entries) {
			break
		}
	}
	return list, more, nil
}

// Find returns the newest item of an id.
func (b *Box) Find(rows Rows, id string) (f Found, ok bool, err error) {
	wanted := identOf(id)
	for i := len(b.parts); i >= 0; i-- {
		var entries []entry
		if i == len(b.parts) {
			entries, err = b.newest()
		} else {
			entries, err = b.part(rows, &b.parts[i])
		}
		if err != nil {
			return f, false, err
		}
		for n := len(entries) - 1; n >= 0; n-- {
			if entries[n].id == wanted {
				return Found{entries[n].item(), entries[n].content}, true, nil
			}
		}
	}
	return f, false, nil
}

func (b *Box) matches(q *inbox.Query, e *entry) bool {
	if q.Category != nil && b.categories[e.category].name != *q.Category {
		return false
	}
	switch q.State {
	case inbox.Unseen:
		return e.unseen()
	case inbox.Unread:
		return e.unread()
	case inbox.Archived:
		return e.archived > 0
	case inbox.Pinned:
		return e.pinned
	case inbox.All:
	}
	return e.archived == 0
}

func (e *entry) item() inbox.Item {
	return inbox.Item{
		Place: e.place, ID: e.id.String(), Pinned: e.pinned, CreatedAt: millis.Time(e.created), KeptUntil: time.UnixMilli(e.until() * minute).UTC(),
		SeenAt: moment(e.seen), ReadAt: moment(e.read), ArchivedAt: moment(e.archived), Answered: e.answer, AnsweredAt: moment(e.answered),
	}
}

func moment(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return millis.Time(ms)
}

// Check compares the kept counts with the entries. problem is empty if they agree; use is called with the content of each entry.
func (b *Box) Check(rows Rows, use func(content int64)) (items int, problem string, err error) {
	counted := make([]category, len(b.categories))
	for i := range counted {
		counted[i].name = b.categories[i].name
	}
	add := func(entries []entry) (unseen, unread int) {
		for i := range entries {
			e := &entries[i]
			use(e.content)
			items++
			c := &counted[e.category]
			c.total++
			if e.unseen() {
				c.unseen++
				unseen++
			}
			if e.unread() {
				c.unread++
				unread++
			}
		}
		return unseen, unread
	}
	for i := range b.parts {
		p := &b.parts[i]
		entries, err := b.part(rows, p)
		if err != nil {
			return items, "", err
		}
		if unseen, unread := add(entries); unseen != p.unseen || unread != p.unread {
			problem = fmt.Sprintf("part %d has %d unseen and %d unread, the head says %d and %d", p.id, unseen, unread, p.unseen, p.unread)
		}
	}
	newest, err := b.newest()
	if err != nil {
		return items, "", err
	}
	add(newest)
	for i, c := range b.categories {
		if c != counted[i] {
			problem = fmt.Sprintf("category %q has %+v, the head says %+v", c.name, counted[i], c)
		}
	}
	if items > inbox.MaxKept {
		problem = fmt.Sprintf("it has %d items; at most %d are kept", items, inbox.MaxKept)
	}
	return items, problem, nil
}
