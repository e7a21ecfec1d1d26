package inboxrow

import (
	"cmp"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/store/millis"
)

// placesAhead is added to the newest place of an inbox whose head is lost: places of its lost items do not come again, since clients have them
// in cursors.
const placesAhead = 1000

// Rowset are the keys of the rows of one inbox.
type Rowset struct {
	Recipient int64
	Head      bool
	Parts     []int64
}

// Rowsets groups keys, which are sorted, by inbox.
func Rowsets(keys []int64) (list []Rowset) {
	for _, key := range keys {
		recipient, head := Recipient(key)
		if n := len(list); n == 0 || list[n-1].Recipient != recipient {
			list = append(list, Rowset{Recipient: recipient})
		}
		of := &list[len(list)-1]
		if of.Head = of.Head || head; !head {
			of.Parts = append(of.Parts, key)
		}
	}
	return list
}

// Remains are the rows of inboxes and contents of which some may be lost.
type Remains interface {
	Rows
	// Category returns the category of a stored content; there is false if it is lost.
	Category(content int64) (category string, there bool, err error)
}

// Rebuilt is an inbox that was made anew.
type Rebuilt struct {
	Items int // that it has
	// Lost is how many items are gone, of an inbox whose head is whole.
	Lost     int
	Contents int  // gone items whose contents are lost
	Headless bool // the head was lost, so how many items it had is unknown
}

// Rebuild makes an inbox anew from those of its rows that are left. Its counts are counted.
func Rebuild(of *Rowset, left Remains, now time.Time) (r Rebuilt, err error) {
	b := &Box{key: Key(of.Recipient), loaded: make(map[uint16][]entry)}
	all, had, err := b.collect(of, left, now)
	if err != nil {
		return r, err
	}
	r.Headless = had < 0
	var kept []entry
	for i := range all {
		name, there, err := left.Category(all[i].content)
		if err != nil {
			return r, err
		}
		if !there {
			r.Contents++
			continue
		}
		e := all[i]
		e.category = b.category(name)
		b.count(&e, 1)
		kept = append(kept, e)
	}
	r.Items = len(kept)
	if !r.Headless {
		r.Lost = had - len(kept)
	}
	return r, b.rewrite(of, left, kept, now)
}

// collect reads the entries that are left, oldest first, and takes what else the head says. had is how many the head counts; -1: it is lost.
func (b *Box) collect(of *Rowset, left Remains, now time.Time) (all []entry, had int, err error) {
	data, err := left.Read(b.key)
	if err != nil {
		return nil, 0, err
	}
	b.stored, had = data != nil, -1
	if old, damaged := Open(of.Recipient, data); data != nil && damaged == nil {
		if newest, damaged := old.newest(); damaged == nil {
			all, had = newest, old.total
			b.revision, b.places = old.revision, old.places
		}
	}
	for _, key := range of.Parts {
		data, err := left.Read(key)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, entriesOf(data)...)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.place, b.place) })
	all = slices.CompactFunc(all, func(a, b entry) bool { return a.place == b.place })
	all = all[max(0, len(all)-inbox.MaxKept):]
	if had < 0 {
		b.revision = uint64(max(1, millis.Of(now))) // positive
		if len(all) > 0 {
			b.places = all[len(all)-1].place + placesAhead
		}
	}
	return all, had, nil
}

// rewrite replaces the rows of an inbox.
func (b *Box) rewrite(of *Rowset, rows Rows, list []entry, now time.Time) error {
	for _, key := range of.Parts {
		if err := rows.Delete(key); err != nil {
			return err
		}
	}
	if len(list) == 0 && !b.stored {
		return nil
	}
	for id := uint16(1); len(list) > maxHead; id++ {
		p := part{id: id}
		if err := b.save(rows, &p, list[:spill:spill]); err != nil {
			return err
		}
		b.parts, list = append(b.parts, p), list[spill:]
	}
	b.head = head{entries: list, decoded: true}
	_, err := b.Flush(rows, now)
	return err
}

// entriesOf reads the entries of a part; nil: it is damaged.
func entriesOf(data []byte) (list []entry) {
	r := &reader{b: data}
	var was before
	for len(r.b) > 0 {
		e := r.entry(was)
		if r.bad || e.place <= was.place || len(list) == maxEntries {
			return nil
		}
		was = e.before()
		list = append(list, e)
	}
	return list
}

// Entries returns how many entries a row has that can be read.
func Entries(key int64, data []byte) int {
	recipient, head := Recipient(key)
	if !head {
		return len(entriesOf(data))
	}
	b, err := Open(recipient, data)
	if err != nil {
		return 0
	}
	return b.head.n
}

// Contents calls use with the content of each entry of an inbox.
func Contents(of *Rowset, rows Rows, use func(content int64) error) error {
	var all []entry
	data, err := rows.Read(Key(of.Recipient))
	if err != nil {
		return err
	}
	b, err := Open(of.Recipient, data)
	if err == nil {
		all, err = b.newest()
	}
	if err != nil {
		return err
	}
	for _, key := range of.Parts {
		data, err := rows.Read(key)
		if err != nil {
			return err
		}
		all = append(all, entriesOf(data)...)
	}
	for i := range all {
		if err := use(all[i].content); err != nil {
			return err
		}
	}
	return nil
}
