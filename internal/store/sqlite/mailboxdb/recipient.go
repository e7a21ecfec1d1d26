package mailboxdb

import (
	"hash/maphash"

	"godwit.dev/godwit/internal/engine/shrink"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/millis"
)

// entry is one unsettled copy in memory. There may be millions, so it is packed into 24 bytes.
type entry struct {
	pos      int64
	bits     uint64 // expiry in ms, shifted by flagBits, and flags
	collapse uint32 // hash of the collapse key; 0: none
	offset   int16  // its content is stored at position pos - offset; soleCopy: at pos, and no other copy shares it
}

// soleCopy is the offset of a copy with a content of its own.
const soleCopy = -1

// Flags of an entry. Readers do not see a transaction's changes until it has committed: they ignore staged entries and still see leaving
// ones.
const (
	flagHigh uint64 = 1 << iota
	flagLow
	flagScheduled
	flagStaged    // appended by the open transaction
	flagLeaving   // the open transaction has settled it, or moved it to its place in seq order
	flagDelivered // a first delivery has been recorded
	flagAckAll
	flagAckNone
	flagAsks  // for a reply
	flagSteps // it has, or had, steps beyond live

	flagBits = 16
)

func newEntry(pos int64, n *notification.Notification, offset int16) entry {
	e := entry{pos: pos, bits: uint64(millis.Of(n.ExpiresAt)) << flagBits, collapse: collapseHash(n.CollapseKey), offset: offset}
	e.bits |= modeFlags(n.Priority, n.Ack)
	if !n.SendAt.IsZero() {
		e.bits |= flagScheduled
	}
	if !n.ReplyBy.IsZero() {
		e.bits |= flagAsks
	}
	if n.Steps != nil {
		e.bits |= flagSteps
	}
	return e
}

func modeFlags(p notification.Priority, a notification.AckMode) (f uint64) {
	switch p {
	case notification.High:
		f |= flagHigh
	case notification.Low:
		f |= flagLow
	case notification.Normal:
	}
	switch a {
	case notification.AckAll:
		f |= flagAckAll
	case notification.AckNone:
		f |= flagAckNone
	case notification.AckAny:
	}
	return f
}

func (e *entry) expires() int64      { return int64(e.bits >> flagBits) }
func (e *entry) is(flag uint64) bool { return e.bits&flag != 0 }
func (e *entry) set(flag uint64)     { e.bits |= flag }
func (e *entry) clear(flag uint64)   { e.bits &^= flag }

// visible reports whether readers should get it at the time now.
func (e *entry) visible(now int64) bool {
	return e.bits&(flagStaged|flagScheduled) == 0 && e.expires() > now
}

func (e *entry) mode() notification.AckMode {
	switch {
	case e.is(flagAckAll):
		return notification.AckAll
	case e.is(flagAckNone):
		return notification.AckNone
	}
	return notification.AckAny
}

func (e *entry) status() notification.Status {
	switch {
	case e.is(flagScheduled):
		return notification.Scheduled
	case e.is(flagDelivered):
		return notification.Delivered
	}
	return notification.Stored
}

func (e *entry) contentPos() int64 {
	if e.offset == soleCopy {
		return e.pos
	}
	return e.pos - int64(e.offset)
}

// app is the namespace of recipients.
type app struct {
	key     int64
	name    string
	members [memberParts]shrink.Map[string, *recipient] // by the hash of the name; parts, since each copies itself at once
}

// memberParts is a power of two.
const memberParts = 64

var memberSeed = maphash.MakeSeed()

func (a *app) part(name string) *shrink.Map[string, *recipient] {
	return &a.members[maphash.String(memberSeed, name)%memberParts]
}

// recipient returns a recipient that is in memory, or nil.
func (a *app) recipient(name string) *recipient { return a.part(name).Get(name) }

// add puts a recipient in memory.
func (a *app) add(r *recipient) { a.part(r.name).Set(r.name, r) }

// drop removes a recipient from memory.
func (a *app) drop(r *recipient) { a.part(r.name).Delete(r.name) }

// recipient is a mailbox in memory: it stays there while copies are pending, and for a while after.
type recipient struct {
	app  *app
	name string
	key  uint32

	active  int32 // number of unsettled copies, including scheduled ones and the open transaction's changes
	lastSeq uint64
	shown   uint64 // lastSeq as committed
	lastPos int64  // newest position appended
	list    []entry

	wakes int64 // a lower bound of the earliest expiry in list, ms; its key in the expiry queue
	slot  int   // index in the expiry queue; -1: not queued

	dirty   bool // lastSeq is newer than the table's value; the recipient is in the list of dirty ones
	touched bool // by the open transaction
	idling  bool // in the queue of recipients that may be dropped from memory
	gone    bool // erased or dropped from memory: no longer in its app
}

// find returns the entry at a position, unless the open transaction has settled it.
func (r *recipient) find(pos int64) *entry {
	for i := range r.list {
		if e := &r.list[i]; e.pos == pos && !e.is(flagLeaving) {
			return e
		}
	}
	return nil
}

// drop removes the entries for which gone returns true, keeps the order of the others, and frees memory after a large backlog.
func (r *recipient) drop(gone func(*entry) bool) {
	kept := r.list[:0]
	for i := range r.list {
		if !gone(&r.list[i]) {
			kept = append(kept, r.list[i])
		}
	}
	r.list = kept
	switch {
	case len(kept) == 0:
		r.list = nil
	case cap(kept) > 64 && len(kept) < cap(kept)/4:
		r.list = append(make([]entry, 0, len(kept)*2), kept...)
	}
}
