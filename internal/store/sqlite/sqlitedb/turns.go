package sqlitedb

// A turn takes ops until they have at least so many rows or bytes. That is so little that a commit, which is full after 1000 rows, has room
// for many apps.
const (
	turnRows  = 50
	turnBytes = 128 << 10
)

// turns queues the ops that wait for the writer, by app.
type turns struct {
	of   map[string]*turn
	next []*turn // apps with queued ops, in the order of their turns
	ops  int
}

// turn is the queue of one app.
type turn struct {
	ops   []Op // from head on
	head  int
	bytes int
}

// keepOps is how many places of an app's empty queue stay allocated.
const keepOps = 1 << 12

func (t *turns) add(app string, op Op, bytes int) {
	q := t.of[app]
	if q == nil {
		if t.of == nil {
			t.of = make(map[string]*turn)
		}
		q = &turn{}
		t.of[app] = q
	}
	if q.head == len(q.ops) {
		t.next = append(t.next, q)
	}
	if q.head > len(q.ops)/2 && q.head > turnRows { // the taken part is larger than the waiting part
		n := copy(q.ops, q.ops[q.head:])
		clear(q.ops[n:])
		q.ops, q.head = q.ops[:n], 0
	}
	q.ops = append(q.ops, op)
	q.bytes += bytes
	t.ops++
}

// first returns the op that take would take first.
func (t *turns) first() Op {
	q := t.next[0]
	return q.ops[q.head]
}

// take passes the ops of the next app's turn to to, until they have so many rows or bytes.
func (t *turns) take(mostRows, mostBytes int, to func(op Op, rows, bytes int)) {
	q := t.next[0]
	copy(t.next, t.next[1:])
	t.next = t.next[:len(t.next)-1]
	for rows, bytes := 0, 0; q.head < len(q.ops) && rows < mostRows && bytes < mostBytes; {
		op := q.ops[q.head]
		q.ops[q.head] = nil
		q.head++
		t.ops--
		r, b := op.Size()
		rows, bytes = rows+r, bytes+b
		q.bytes -= b
		to(op, r, b)
	}
	if q.head < len(q.ops) {
		t.next = append(t.next, q)
		return
	}
	if q.ops, q.head = q.ops[:0], 0; cap(q.ops) > keepOps {
		q.ops = nil
	}
}
