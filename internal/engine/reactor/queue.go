package reactor

// queue holds the bytes that a socket has not accepted yet. It exists only while there are some.
type queue struct {
	bufs  [][]byte // oldest first
	n     int      // bytes in bufs
	owned bool     // the last of bufs belongs to the queue, so that small pieces may be appended to it
}

const (
	// shareFrom is the size in bytes from which an immutable tail is referenced instead of copied: below it, the reference and the separate
	// piece in the system call cost more than copying.
	shareFrom = 512
	// chunkSize is the number of bytes allocated at a time for small pieces.
	chunkSize = 2 << 10
)

// copyIn appends a copy of b.
func (q *queue) copyIn(b []byte) {
	if len(b) == 0 {
		return
	}
	q.n += len(b)
	if last := len(q.bufs) - 1; q.owned && cap(q.bufs[last])-len(q.bufs[last]) >= len(b) {
		q.bufs[last] = append(q.bufs[last], b...)
		return
	}
	q.bufs = append(q.bufs, append(make([]byte, 0, max(len(b), chunkSize)), b...))
	q.owned = true
}

// share appends b, which must never change.
func (q *queue) share(b []byte) {
	if len(b) < shareFrom {
		q.copyIn(b)
		return
	}
	q.n += len(b)
	q.bufs = append(q.bufs, b)
	q.owned = false
}

// drop removes the first n bytes.
func (q *queue) drop(n int) {
	q.n -= n
	for n > 0 {
		first := q.bufs[0]
		if n < len(first) {
			q.bufs[0] = first[n:]
			return
		}
		n -= len(first)
		q.bufs[0] = nil
		q.bufs = q.bufs[1:]
	}
	if len(q.bufs) == 0 {
		q.owned = false
	}
}
