package signal

// phase is the progress of loading a client's stored registrations. It only goes forward, except after a failed read.
type phase uint8

const (
	unread    phase = iota // the registrations have yet to be read
	rereading              // a read has failed, and they are being read again
	loaded                 // the client has its whole set, with or without a session
	removed                // no longer in the roster: a goroutine that still finds the client searches again
)

// reread reports whether the caller is to read again: no other goroutine does, and a read is still useful.
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

// load reports whether the caller's set becomes the client's. The first set counts, whether it was read, is empty or came from the client;
// a set that is read later is older.
func (p *phase) load() bool {
	if *p >= loaded {
		return false
	}
	*p = loaded
	return true
}

// remove reports whether the caller is the one that removes the client from the roster.
func (p *phase) remove() bool {
	if *p == removed {
		return false
	}
	*p = removed
	return true
}
