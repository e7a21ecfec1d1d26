package sqlitedb

import "time"

// Limits up to which a commit grows on a slow disk.
const (
	maxGrownRows = 16 * maxCommitOps     // rows; for small notifications that is half of the bytes that a commit may have
	maxGrowing   = 50 * time.Millisecond // however slow the disk is
	diskMemory   = 8                     // the disk's time is averaged over about so many commits
)

// lot is the content of a commit.
type lot struct {
	ops         []Op
	rows, bytes int
}

func (l *lot) add(op Op, rows, bytes int) {
	l.ops = append(l.ops, op)
	l.rows, l.bytes = l.rows+rows, l.bytes+bytes
}

// empty clears the ops and keeps their memory, unless that is far too large.
func (l *lot) empty() {
	clear(l.ops)
	if *l = (lot{ops: l.ops[:0]}); cap(l.ops) > keepOps {
		l.ops = nil
	}
}

// take collects the next commit; more is false when the writer should end.
func (w *writer) take() (more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.urgent > 0 || w.lazyDue || w.bulk.ops > 0 || w.closed {
		w.takeFirst()
	}
	if w.bulk.ops > 0 && (w.urgent == 0 || time.Since(w.waits) > bulkPatience) {
		w.takeBulk()
	}
	w.taken(w.batch.bytes)
	w.left = w.urgent > 0
	return !w.closed || len(w.fast)+w.byApp.ops+w.bulk.ops > 0
}

// takeFirst adds the ops that have priority over background work, up to the usual size of a commit.
func (w *writer) takeFirst() {
	n, part := 0, 1
	if w.byApp.ops > 0 {
		part = 2 // each kind gets half of the room
	}
	rows, bytes := w.batch.rows, w.batch.bytes
	room := func(part int) bool {
		return w.batch.rows-rows < maxCommitOps/part && w.batch.bytes-bytes < maxCommitBytes/part
	}
	for n < len(w.fast) && room(part) {
		q := w.fast[n]
		if q.lazy {
			w.lazies--
		} else {
			w.urgent--
		}
		r, b := q.op.Size()
		w.batch.add(q.op, r, b)
		n++
	}
	w.fast = consume(w.fast, n)
	for w.byApp.ops > 0 && room(1) {
		w.byApp.take(turnRows, turnBytes, func(op Op, r, b int) {
			w.urgent--
			w.batch.add(op, r, b)
		})
	}
	if len(w.fast) == 0 {
		w.lazyDue = false
	}
}

// takeBulk adds a slice of background work.
func (w *writer) takeBulk() {
	for rows, bytes := 0, 0; w.bulk.ops > 0 && rows < maxBulkRows && bytes < maxBulkBytes; {
		if r, b := w.bulk.first().Size(); rows > 0 && (rows+r > maxBulkRows || bytes+b > maxBulkBytes) {
			break
		}
		w.bulk.take(1, 1, func(op Op, r, b int) {
			rows, bytes = rows+r, bytes+b
			w.batch.add(op, r, b)
		})
	}
	w.waits = time.Now()
}

// taken subtracts taken bytes from the queued ones and wakes submitters that wait for room.
func (w *writer) taken(bytes int) {
	if bytes > 0 {
		w.bytes -= bytes
		w.shrunk.Broadcast()
	}
}

// grow also applies operations that have arrived since, as long as recent commits took the disk longer than applying this one has taken so
// far. So callers wait at most twice as long for the sake of others, and a disk that takes 20 ms commits once for the publishes of 40 ms.
func (w *writer) grow(began time.Time) error {
	for w.batch.rows < maxGrownRows && w.batch.bytes < maxCommitBytes && time.Since(began) < min(w.disk, maxGrowing) {
		n := len(w.batch.ops)
		w.mu.Lock()
		bytes := w.batch.bytes
		if w.urgent > 0 {
			w.takeFirst()
			w.taken(w.batch.bytes - bytes)
		}
		w.mu.Unlock()
		if len(w.batch.ops) == n {
			return nil
		}
		if err := w.apply(w.batch.ops[n:]); err != nil {
			return err
		}
	}
	return nil
}

// took records how long the disk took for a commit. A single very slow commit says little about the next, so its weight is limited.
func (w *writer) took(d time.Duration) {
	w.disk += (min(d, 2*maxGrowing) - w.disk) / diskMemory
}

// consume removes the first n entries and keeps the memory, unless that has grown out of proportion.
func consume(q []queued, n int) []queued {
	if n == len(q) && cap(q) > 1<<16 {
		return nil
	}
	rest := copy(q, q[n:])
	clear(q[rest:])
	return q[:rest]
}
