package inboxrow

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/store/millis"
)

// Sizes of an inbox's rows. Heads with a few dozen entries fit a page of SQLite several times over.
const (
	maxHead    = 32 // entries of a head; beyond that the oldest of them become a part
	spill      = 16 // of these
	maxEntries = inbox.MaxKept + maxHead
	maxParts   = 1<<partBits - 1
	partBits   = 12
	headFormat = 1
)

// Key is the key of an inbox's head; its parts follow it.
func Key(recipient int64) int64 { return recipient << partBits }

// Recipient is the inverse of Key, also for parts; head reports whether the key is a head's.
func Recipient(key int64) (recipient int64, head bool) { return key >> partBits, key&maxParts == 0 }

// Last is the greatest key of an inbox's rows.
func Last(recipient int64) int64 { return Key(recipient) | maxParts }

// Row is a row that is written.
type Row struct {
	Key  int64
	Data []byte // until the next row is written
	// Due is the minute from which something of the inbox is kept no more, of a head only; 0: nothing is.
	Due  int64
	New  bool // there was no row of this key
	Same bool // Due is as it was
}

// Rows are the rows of inboxes and contents in an open transaction.
type Rows interface {
	// Read returns the data of a row; nil: there is none.
	Read(key int64) ([]byte, error)
	// Write stores a row.
	Write(row Row) error
	Delete(key int64) error
	// Release tells that an entry of this content has gone.
	Release(content int64) error
}

// Box is an inbox in memory. Its head is decoded, its parts are read when they are needed.
type Box struct {
	key        int64
	revision   uint64
	places     uint64 // given out
	categories []category
	parts      []part // oldest first
	head       head
	total      int
	stored     bool   // there is a row
	wasDue     int64  // of that
	buffer     []byte // of the row that is written

	dirty   bool
	loaded  map[uint16][]entry
	changed changes
}

// head are the newest entries. They stay encoded until something else than one more of them comes.
type head struct {
	n       int
	encoded []byte
	last    before // of the last entry
	until   int64  // the earliest of theirs
	entries []entry
	decoded bool
}

type category struct {
	name                  string
	unseen, unread, total int
}

// part is what the head knows of a part.
type part struct {
	id                       uint16
	n, unseen, unread, keyed int
	until                    int64  // the earliest of its entries'
	last                     uint64 // place of the newest
}

// changes are those since the last Flush.
type changes struct {
	ids                  []string
	more                 bool
	seen, read, archived []inbox.Ref
	marked               []inbox.Marked
	moved                bool // the unseen count, otherwise than by items that came
}

func (c *changes) add(id string) {
	switch {
	case slices.Contains(c.ids, id):
	case len(c.ids) == inbox.MaxChanged:
		c.more = true
	default:
		c.ids = append(c.ids, id)
	}
}

// mark notes what an item is.
func (c *changes) mark(e *entry) {
	m := inbox.Marked{ID: e.id.String(), Seen: e.seen > 0, Read: e.read > 0, Archived: e.archived > 0, Pinned: e.pinned, Answered: e.answer}
	c.unmark(m.ID)
	if len(c.marked) < inbox.MaxMarked {
		c.marked = append(c.marked, m)
	}
}

// unmark forgets what an item is, which has come or gone.
func (c *changes) unmark(id string) {
	c.marked = slices.DeleteFunc(c.marked, func(m inbox.Marked) bool { return m.ID == id })
}

// Open decodes an inbox's head; nil data is an inbox that has never had anything.
func Open(recipient int64, data []byte) (*Box, error) {
	b := &Box{key: Key(recipient)}
	if data == nil {
		return b, nil
	}
	b.stored = true
	r := &reader{b: data}
	if format := r.uvarint(); format != headFormat {
		return nil, fmt.Errorf("inbox %d: %w: form %d is unknown", recipient, errDamaged, format)
	}
	b.revision, b.places = r.uvarint(), r.uvarint()
	for range r.number(maxEntries) {
		c := category{name: r.text(), unseen: r.number(maxEntries), unread: r.number(maxEntries), total: r.number(maxEntries)}
		b.categories = append(b.categories, c)
		b.total += c.total
	}
	last := uint64(0)
	for range r.number(maxParts) {
		p := part{
			id: uint16(r.number(maxParts)), n: r.number(maxEntries), unseen: r.number(maxEntries), unread: r.number(maxEntries), keyed: r.number(maxEntries),
			until: r.varint(),
		}
		p.last = last + r.uvarint()
		last = p.last
		b.parts = append(b.parts, p)
	}
	b.head.n = r.number(maxEntries)
	b.head.last = before{r.uvarint(), r.varint(), r.varint()}
	b.head.until = r.varint()
	b.head.encoded = r.b
	if r.bad {
		return nil, fmt.Errorf("inbox %d: %w", recipient, errDamaged)
	}
	b.wasDue = b.due()
	return b, nil
}

func (b *Box) append(to []byte) []byte {
	to = binary.AppendUvarint(to, headFormat)
	to = binary.AppendUvarint(to, b.revision)
	to = binary.AppendUvarint(to, b.places)
	to = appendNumber(to, len(b.categories))
	for _, c := range b.categories {
		to = append(appendNumber(to, len(c.name)), c.name...)
		to = appendNumber(appendNumber(appendNumber(to, c.unseen), c.unread), c.total)
	}
	to = appendNumber(to, len(b.parts))
	last := uint64(0)
	for _, p := range b.parts {
		to = appendNumber(appendNumber(to, int(p.id)), p.n)
		to = appendNumber(appendNumber(appendNumber(to, p.unseen), p.unread), p.keyed)
		to = binary.AppendVarint(to, p.until)
		to = binary.AppendUvarint(to, p.last-last)
		last = p.last
	}
	to = binary.AppendUvarint(appendNumber(to, b.head.n), b.head.last.place)
	to = binary.AppendVarint(binary.AppendVarint(to, b.head.last.content), b.head.last.created)
	return append(binary.AppendVarint(to, b.head.until), b.head.encoded...)
}

func (h *head) size() int {
	if h.decoded {
		return len(h.entries)
	}
	return h.n
}

// newest returns the entries of the head, decoded. The caller may change them; encode follows before the head is written.
func (b *Box) newest() ([]entry, error) {
	if b.head.decoded {
		return b.head.entries, nil
	}
	r := &reader{b: b.head.encoded}
	list := r.entries(b.head.n, len(b.categories))
	if r.bad || len(r.b) > 0 {
		recipient, _ := Recipient(b.key)
		return nil, fmt.Errorf("inbox %d: %w", recipient, errDamaged)
	}
	b.head.entries, b.head.decoded = list, true
	return list, nil
}

// encode encodes the entries of the head again after they may have changed.
func (b *Box) encode() {
	h := &b.head
	if !h.decoded {
		return
	}
	h.n, h.until = len(h.entries), 0
	for i := range h.entries {
		if until := h.entries[i].until(); h.until == 0 || until < h.until {
			h.until = until
		}
	}
	h.encoded, h.last = appendEntries(make([]byte, 0, 40*h.n), h.entries)
	h.entries, h.decoded = nil, false
}

// push adds an entry to the head.
func (b *Box) push(e *entry) {
	h := &b.head
	if h.decoded {
		h.entries = append(h.entries, *e)
		return
	}
	h.encoded = e.append(h.encoded, h.last)
	h.last = e.before()
	h.n++
	if until := e.until(); h.until == 0 || until < h.until {
		h.until = until
	}
}

func appendNumber(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

// Counts are the inbox's counts.
func (b *Box) Counts() inbox.Counts {
	c := inbox.Counts{Revision: b.revision}
	for _, k := range b.categories {
		if k.total == 0 {
			continue
		}
		if c.Categories == nil {
			c.Categories = make(map[string]inbox.Count, len(b.categories))
		}
		c.Categories[k.name] = inbox.Count{Unseen: k.unseen, Unread: k.unread}
		c.Unseen += k.unseen
		c.Unread += k.unread
		c.Total += k.total
	}
	return c
}

// due is the minute from which something is kept no more.
func (b *Box) due() (first int64) {
	least := func(until int64) {
		if first == 0 || until < first {
			first = until
		}
	}
	for _, p := range b.parts {
		least(p.until)
	}
	if b.head.n > 0 {
		least(b.head.until)
	}
	return first
}

// Dirty reports whether Flush has something to write.
func (b *Box) Dirty() bool { return b.dirty }

// Flush writes the head and returns what has changed.
func (b *Box) Flush(rows Rows, now time.Time) (inbox.Change, error) {
	b.dirty = false
	b.loaded = nil
	b.encode()
	if b.revision++; !b.stored { // an inbox of the same name may have been erased: no revision of it comes again
		b.revision = uint64(max(1, millis.Of(now))) // positive
	}
	c := inbox.Change{
		Count: b.waiting(), Revision: b.revision, Changed: b.changed.ids, More: b.changed.more, Marked: b.changed.marked, Moved: b.changed.moved,
		At: now, Seen: b.changed.seen, Read: b.changed.read, Archived: b.changed.archived,
	}
	b.changed = changes{}
	b.buffer = b.append(b.buffer[:0])
	row := Row{Key: b.key, Data: b.buffer, Due: b.due(), New: !b.stored}
	row.Same = row.Due == b.wasDue
	b.stored, b.wasDue = true, row.Due
	return c, rows.Write(row)
}

// waiting sums the counts of categories.
func (b *Box) waiting() (c inbox.Count) {
	for i := range b.categories {
		c.Unseen += b.categories[i].unseen
		c.Unread += b.categories[i].unread
	}
	return c
}

// category returns the index of a category, and makes it if necessary.
func (b *Box) category(name string) int {
	free := -1
	for i := range b.categories {
		if b.categories[i].name == name {
			return i
		}
		if b.categories[i].total == 0 {
			free = i
		}
	}
	if free >= 0 {
		b.categories[free].name = name
		return free
	}
	b.categories = append(b.categories, category{name: name})
	return len(b.categories) - 1
}

// count adds an entry to the counts of its category, times d.
func (b *Box) count(e *entry, d int) {
	c := &b.categories[e.category]
	c.total += d
	b.total += d
	if e.unseen() {
		c.unseen += d
	}
	if e.unread() {
		c.unread += d
	}
}

// part returns the entries of a part.
func (b *Box) part(rows Rows, p *part) ([]entry, error) {
	if list, ok := b.loaded[p.id]; ok {
		return list, nil
	}
	data, err := rows.Read(b.key | int64(p.id))
	if err != nil {
		return nil, err
	}
	r := &reader{b: data}
	list := r.entries(p.n, len(b.categories))
	if r.bad || len(r.b) > 0 {
		recipient, _ := Recipient(b.key)
		return nil, fmt.Errorf("inbox %d, part %d: %w", recipient, p.id, errDamaged)
	}
	if b.loaded == nil {
		b.loaded = make(map[uint16][]entry)
	}
	b.loaded[p.id] = list
	return list, nil
}

// save stores a part's entries, or deletes the part if it has none. The caller removes parts without entries from b.parts.
func (b *Box) save(rows Rows, p *part, list []entry) error {
	fresh := p.n == 0
	p.n, p.unseen, p.unread, p.keyed, p.until = len(list), 0, 0, 0, 0
	for i := range list {
		e := &list[i]
		if e.unseen() {
			p.unseen++
		}
		if e.unread() {
			p.unread++
		}
		if e.key != 0 {
			p.keyed++
		}
		if until := e.until(); p.until == 0 || until < p.until {
			p.until = until
		}
		p.last = e.place
	}
	if len(list) == 0 {
		delete(b.loaded, p.id)
		return rows.Delete(b.key | int64(p.id))
	}
	b.loaded[p.id] = list
	b.buffer, _ = appendEntries(b.buffer[:0], list)
	return rows.Write(Row{Key: b.key | int64(p.id), Data: b.buffer, New: fresh, Same: true})
}

// spill moves the oldest entries of the head into a part.
func (b *Box) spill(rows Rows) error {
	newest, err := b.newest()
	if err != nil {
		return err
	}
	id := uint16(1)
	if n := len(b.parts); n > 0 {
		id = b.parts[n-1].id%maxParts + 1
	}
	for slices.ContainsFunc(b.parts, func(p part) bool { return p.id == id }) {
		id = id%maxParts + 1
	}
	if b.loaded == nil {
		b.loaded = make(map[uint16][]entry)
	}
	p := part{id: id}
	if err := b.save(rows, &p, slices.Clone(newest[:spill])); err != nil {
		return err
	}
	b.parts = append(b.parts, p)
	b.head.entries = slices.Delete(newest, 0, spill)
	return nil
}

// hashKey is the hash of a collapse key. It is stored: never change it.
func hashKey(key string) uint64 {
	if key == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(key))
	return max(1, binary.BigEndian.Uint64(sum[:]))
}
