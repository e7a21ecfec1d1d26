package redisstream

import (
	"slices"
	"sort"
	"sync"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// maxEntries limits the entries of one client in memory; further ones are read when some of these have been acknowledged or have expired.
// No session requests as many.
const maxEntries = 4096

// entry is the state kept of an entry until Redis has deleted it.
type entry struct {
	id       EntryID
	note     string // the notification's id
	category string
	pos      int64 // as which sessions know it
	expires  int64 // in milliseconds
	sent     int64 // when it was last written to a connection; 0: never
	size     int32
	attempts uint32
	state    state
	twin     bool // another entry of this notification is pending: both are deleted together, and this one replaces the other if that expires first
	fresh    bool // it arrived while the client was online
}

type state uint8

const (
	waiting state = iota
	leaving       // being deleted or set aside
	stuck         // poison that could not be set aside; tried again at the next read
	gone          // deleted; dropped once no read is under way that may still return it
)

// stream is the state kept of an online client.
type stream struct {
	key, client string
	shard       uint16

	mu       sync.Mutex
	entries  []entry // by id
	last     EntryID // newest that was read
	pos      int64   // newest that was given out
	due      int64   // time of the stream's next expiry, in milliseconds; 0: not scheduled
	sessions int32
	reads    int32  // under way
	life     uint32 // counts how often the client went offline
	known    bool   // it has been read since the client came online
	full     bool   // Redis may have more entries than maxEntries
	asked    bool   // a read is queued or under way
	again    bool   // asked for once more meanwhile
	whole    bool   // the next read begins at the first entry
	reread   bool   // sessions must read once more, because an entry could not be read
}

// from returns where the next read begins. A stream without known entries is read from its first entry: so entries added after the key had
// vanished are found even if a clock was set back.
func (st *stream) from() EntryID {
	if st.whole || len(st.entries) == 0 {
		return EntryID{}
	}
	return st.last.next()
}

// at finds an entry by its id.
func (st *stream) at(id EntryID) (i int, ok bool) {
	return slices.BinarySearchFunc(st.entries, id, func(e entry, id EntryID) int { return e.id.Compare(id) })
}

// byPos returns the entry that sessions know by this position.
func (st *stream) byPos(pos int64) *entry {
	// Ids and positions have the same order unless a clock was set back.
	i := sort.Search(len(st.entries), func(i int) bool { return st.entries[i].pos >= pos })
	for k := range st.entries {
		e := &st.entries[(i+k)%len(st.entries)]
		if e.pos == pos && e.state == waiting && !e.twin {
			return e
		}
	}
	return nil
}

// hadPos returns the entry, in any state, that sessions knew by a position.
func (st *stream) hadPos(pos int64, note string) *entry {
	for i := range st.entries {
		if e := &st.entries[i]; e.pos == pos && e.note == note && !e.twin {
			return e
		}
	}
	return nil
}

// byNote returns the pending entry of a notification.
func (st *stream) byNote(note string) *entry {
	for i := range st.entries {
		if e := &st.entries[i]; e.note == note && e.state == waiting && !e.twin {
			return e
		}
	}
	return nil
}

// waits reports whether an entry is to be delivered.
func (st *stream) waits() bool {
	return slices.ContainsFunc(st.entries, func(e entry) bool { return e.state == waiting })
}

// departs reports whether an entry is to be deleted.
func (st *stream) departs() bool {
	return slices.ContainsFunc(st.entries, func(e entry) bool { return e.state == leaving })
}

// insert adds an entry that is not in the list.
func (st *stream) insert(e entry) {
	i, _ := st.at(e.id)
	st.entries = slices.Insert(st.entries, i, e)
}

// known returns the state to keep of an entry.
func known(e *Entry) entry {
	return entry{
		id: e.ID, note: e.NotificationID, category: e.Category, expires: e.ExpiresAt.UnixMilli(),
		size: int32(len(e.Title) + len(e.Body) + len(e.EntityData)),
	}
}

// add inserts a new entry and assigns its position. A twin gets the position of the pending entry, and add returns false.
func (st *stream) add(k *entry) bool {
	if first := st.byNote(k.note); first != nil {
		k.twin, k.pos = true, first.pos
		st.insert(*k)
		return false
	}
	st.pos++
	k.pos, k.fresh = st.pos, st.known
	st.insert(*k)
	return true
}

// depart starts the deletion of a notification's pending entries, including twins, and returns their ids.
func (st *stream) depart(note string) (ids []EntryID) {
	for i := range st.entries {
		if e := &st.entries[i]; e.note == note && e.state == waiting {
			e.state = leaving
			ids = append(ids, e.id)
		}
	}
	return ids
}

// ended is an expired entry that a session may have, or an entry that is deleted without a report.
type ended struct {
	e   entry
	ids []EntryID
}

// expire starts the deletion of the entries that have expired by now, in milliseconds.
func (st *stream) expire(now int64) (list []ended) {
	for i := range st.entries {
		e := &st.entries[i]
		if e.state != waiting || e.expires > now {
			continue
		}
		e.state = leaving
		x := ended{ids: []EntryID{e.id}}
		if !e.twin && !st.succeed(e, now) {
			x.e = *e
		}
		list = append(list, x)
	}
	return list
}

// succeed lets a twin replace an entry that has expired, and reports whether there was one.
func (st *stream) succeed(e *entry, now int64) bool {
	for i := range st.entries {
		t := &st.entries[i]
		if t.twin && t.state == waiting && t.note == e.note && t.expires > now {
			t.twin, t.pos, t.sent, t.attempts = false, e.pos, e.sent, e.attempts
			return true
		}
	}
	return false
}

// nextExpiry returns when the next entry expires; 0: none does.
func (st *stream) nextExpiry() (at int64) {
	for i := range st.entries {
		if e := &st.entries[i]; e.state == waiting && (at == 0 || e.expires < at) {
			at = e.expires
		}
	}
	return at
}

// deleted records that entries are no longer in Redis.
func (st *stream) deleted(ids []EntryID) {
	for _, id := range ids {
		if i, ok := st.at(id); ok {
			st.entries[i].state = gone
		}
	}
	st.forget()
}

// forget drops deleted entries, unless a read is under way that began before.
func (st *stream) forget() {
	if st.reads > 0 {
		return
	}
	st.entries = slices.DeleteFunc(st.entries, func(e entry) bool { return e.state == gone })
	if len(st.entries) == 0 {
		st.entries = nil // an online client without entries needs no list
	}
}

// vanished removes pending entries up to upTo that a read of all entries did not find: another client has acknowledged or deleted them, or
// the key has expired. It returns the entries whose positions sessions may have.
func (st *stream) vanished(upTo EntryID, found func(EntryID) bool) (list []entry) {
	for i := range st.entries {
		e := &st.entries[i]
		if e.state != waiting || e.id.Compare(upTo) > 0 || found(e.id) {
			continue
		}
		e.state = gone
		if !e.twin && !st.succeed(e, 0) {
			list = append(list, *e)
		}
	}
	return list
}

// leave drops all entries that are not being deleted, since the client went offline.
func (st *stream) leave() {
	st.entries = slices.DeleteFunc(st.entries, func(e entry) bool { return e.state != leaving })
	if len(st.entries) == 0 {
		st.entries = nil
	}
	st.last, st.due = EntryID{}, 0
	st.known, st.full, st.whole, st.reread = false, false, false, false
	st.life++
}

// pick chooses the entries that a session gets next.
func (st *stream) pick(q *mailbox.PendingQuery, now int64) (chosen []entry, more bool) {
	bytes := 0
	for i := range st.entries {
		e := &st.entries[i]
		if e.state != waiting || e.twin || e.expires <= now {
			continue
		}
		if _, has := slices.BinarySearch(q.Have, e.pos); has {
			continue
		}
		if len(chosen) == q.Limit || q.Bytes > 0 && bytes >= q.Bytes {
			return chosen, true
		}
		bytes += int(e.size)
		chosen = append(chosen, *e)
	}
	return chosen, false
}
