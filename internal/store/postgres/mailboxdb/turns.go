package mailboxdb

// turnRows limits the rows that one app's turn takes, so that one commit has room for many apps.
const turnRows = 50

// turns queues a lane's operations by app, so that an app that publishes much delays only itself.
type turns struct {
	of   map[string]*turn
	next []*turn // apps with queued operations, in the order of their turns
	ops  int
}

type turn struct {
	app  string
	ops  []op
	rows int // taken in this turn
}

func (t *turns) add(app string, o op) {
	q := t.of[app]
	if q == nil {
		if t.of == nil {
			t.of = make(map[string]*turn)
		}
		q = &turn{app: app}
		t.of[app] = q
		t.next = append(t.next, q)
	}
	q.ops = append(q.ops, o)
	t.ops++
}

// first returns the operation that pop would remove.
func (t *turns) first() op { return t.next[0].ops[0] }

func (t *turns) pop() {
	q := t.next[0]
	rows, _ := q.ops[0].size()
	q.ops[0] = nil
	q.ops = q.ops[1:]
	t.ops--
	if q.rows += rows; q.rows < turnRows && len(q.ops) > 0 {
		return
	}
	copy(t.next, t.next[1:])
	t.next[len(t.next)-1] = q
	if q.rows = 0; len(q.ops) == 0 {
		t.next = t.next[:len(t.next)-1]
		delete(t.of, q.app)
	}
}
