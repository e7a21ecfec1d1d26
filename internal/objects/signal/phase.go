package signal

// phase is the progress of loading a client's stored registrations. It only goes forward, except when a read fails.
type phase uint8

const (
	unread    phase = iota // they have yet to be read
	rereading              // a read has failed, and they are being read again
	loaded                 // the client has its whole set, with or without a session
	removed                // no longer in the roster: a goroutine that still finds it searches again
)

// reread reports whether the caller is to read again: nobody else does, and it is of use.
func (p *phase) reread() bool {
	if *p != unread {
		return false
	}
	*p = rereading
	return true
}

// readFailed allows another read later.
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
