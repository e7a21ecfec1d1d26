package mailboxdb

// turnRows is what one turn takes, if there is so much: so little that a commit has room for many apps.
const turnRows = 50

// turns is what waits for a lane, app by app: one that publishes much waits for itself.
type turns struct {
	of   map[string]*turn
	next []*turn // apps with something waiting, in turn
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

// first is the op that pop takes away.
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
