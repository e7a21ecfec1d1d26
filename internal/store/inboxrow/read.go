package inboxrow

import (
	"errors"
	"fmt"
	"slices"
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

// Check compares an inbox with its rows, of which parts has the keys. problem is empty if they agree; use is called with the content of each
// entry.
func (b *Box) Check(rows Rows, parts []int64, use func(content int64)) (items int, problem string, err error) {
	c := checking{b: b, counted: make([]category, len(b.categories)), use: use}
	for i := range c.counted {
		c.counted[i].name = b.categories[i].name
	}
	for i := range b.parts {
		p := &b.parts[i]
		entries, err := b.part(rows, p)
		if errors.Is(err, errDamaged) {
			return c.items, err.Error(), nil
		}
		if err != nil {
			return c.items, "", err
		}
		c.comparePart(p, entries)
		if at := slices.Index(parts, b.key|int64(p.id)); at >= 0 {
			parts = slices.Delete(slices.Clone(parts), at, at+1)
		}
	}
	newest, err := b.newest()
	if err != nil {
		return c.items, err.Error(), nil // that is what it finds
	}
	c.add(newest)
	c.compareHead(parts)
	return c.items, c.problem, nil
}

// checking compares one inbox.
type checking struct {
	b       *Box
	counted []category
	items   int
	last    uint64 // place of the last entry
	problem string
	use     func(content int64)
}

func (c *checking) say(format string, args ...any) { c.problem = fmt.Sprintf(format, args...) }

func (c *checking) add(entries []entry) (sum part) {
	for i := range entries {
		e := &entries[i]
		c.use(e.content)
		c.items++
		of := &c.counted[e.category]
		of.total++
		if e.unseen() {
			of.unseen++
			sum.unseen++
		}
		if e.unread() {
			of.unread++
			sum.unread++
		}
		if e.key != 0 {
			sum.keyed++
		}
		if until := e.until(); sum.until == 0 || until < sum.until {
			sum.until = until
		}
		if e.place <= c.last {
			c.say("the item at place %d follows the one at %d", e.place, c.last)
		}
		c.last = e.place
	}
	return sum
}

func (c *checking) comparePart(p *part, entries []entry) {
	sum := c.add(entries)
	sum.id, sum.n, sum.last = p.id, len(entries), c.last
	if sum != *p {
		c.say("part %d has %d items, %d unseen and %d unread; the head says %d, %d and %d", p.id, sum.n, sum.unseen, sum.unread, p.n, p.unseen, p.unread)
	}
}

// compareHead compares what the head says of all entries. stray are the keys of parts that it does not name.
func (c *checking) compareHead(stray []int64) {
	for i, is := range c.b.categories {
		if was := c.counted[i]; is != was {
			c.say("category %q has %d items, %d unseen and %d unread; the head says %d, %d and %d", is.name, was.total, was.unseen, was.unread, is.total, is.unseen, is.unread)
		}
	}
	switch {
	case len(stray) > 0:
		c.say("its head does not name %d of its parts", len(stray))
	case c.items > inbox.MaxKept:
		c.say("it has %d items; at most %d are kept", c.items, inbox.MaxKept)
	case c.last > c.b.places:
		c.say("its newest item is at place %d; the head has given out %d places", c.last, c.b.places)
	}
}
