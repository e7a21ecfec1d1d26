package signal

// phase is how far a client has got with the registrations that are stored for it. It only goes forward, except when a
// read fails.
type phase uint8

const (
	unread    phase = iota // they have yet to be read
	rereading              // a read has failed, and they are being read again
	loaded                 // the client has its whole set, with or without a session
	removed                // not in the roster any more: whoever still finds it looks again
)

// reread reports whether the caller is to read again: nobody else does, and it is of use.
func (p *phase) reread() bool {
	if *p != unread {
		return false
	}
	*p = rereading
	return true
}

// readFailed lets somebody read again later.
func (p *phase) readFailed() {
	if *p == rereading {
		*p = unread
	}
}

// load reports whether the caller gives the client its set. The first one to have the set does, whether it was read, is
// empty or came from the client; what is read later is older.
func (p *phase) load() bool {
	if *p >= loaded {
		return false
	}
	*p = loaded
	return true
}

// remove reports whether the caller takes the client out of the roster.
func (p *phase) remove() bool {
	if *p == removed {
		return false
	}
	*p = removed
	return true
}
