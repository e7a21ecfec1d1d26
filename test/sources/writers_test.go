package sources

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	writers    = 3
	each       = 4     // recipients of a writer, which alone notifies them: the order of its commits is theirs
	rolledBack = 0.2   // share of the transactions
	lead       = 1_000 // changes that may wait to be received, so that transactions run as long as something is killed
)

// database is one whose transactions notify.
type database interface {
	connect(ctx context.Context) (session, error)
	// change is a statement that sends a title.
	change(r *rand.Rand, to, title string) string
}

// session is a connection to a database.
type session interface {
	// exec executes statements that end with a semicolon.
	exec(ctx context.Context, sql string) error
	// exists reports whether a query has a row.
	exists(ctx context.Context, query string) (bool, error)
	lost() bool
	close()
}

// never marks changes that are rolled back.
const never = " never"

// part marks changes of large transactions.
const part = " part"

// office runs transactions that notify, and remembers those that were committed.
type office struct {
	db      database
	goal    int
	largest int        // changes of a transaction
	large   int        // changes of one whose arrival is a time to kill
	got     func() int // changes that were received
	// A large transaction tells here that it is about to run, if anybody waits.
	running chan struct{}
	over    chan struct{} // closed when no transaction runs any more

	mu       sync.Mutex
	want     map[string][]string // titles of committed changes by recipient, in order
	changes  int
	commits  int
	rolled   int
	repeated int // transactions that ran again since the database had lost them
	unsure   int // those whose commit got no answer
}

func newOffice(db database, goal, largest, large int, got func() int) *office {
	return &office{
		db: db, goal: goal, largest: largest, large: large, got: got, want: make(map[string][]string),
		running: make(chan struct{}), over: make(chan struct{}),
	}
}

func recipients() (list []string) {
	for w := range writers {
		list = append(list, ofWriter(w)...)
	}
	return list
}

func ofWriter(w int) (list []string) {
	for i := range each {
		list = append(list, fmt.Sprintf("driver-%d-%d", w, i))
	}
	return list
}

func (o *office) committed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changes
}

// run commits until there are as many changes as wanted, and at last one for every recipient.
func (o *office) run(ctx context.Context) error {
	defer close(o.over)
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		wg.Go(func() { errs[w] = o.write(ctx, w) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	last := &writer{office: o, number: writers}
	defer last.close()
	tx := &transaction{}
	for _, to := range recipients() {
		tx.add(o.db, nil, to, "end")
	}
	return last.commit(ctx, tx)
}

func (o *office) write(ctx context.Context, number int) error {
	w := &writer{office: o, number: number, rand: rand.New(rand.NewPCG(34, uint64(number)))}
	defer w.close()
	for o.committed() < o.goal {
		if o.committed()-o.got() > lead {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(5 * time.Millisecond):
			}
			continue
		}
		tx := w.transaction()
		if !tx.rolledBack {
			if err := w.commit(ctx, tx); err != nil {
				return err
			}
			continue
		}
		if err := w.exec(ctx, "BEGIN;"+tx.sql.String()+"ROLLBACK"); err == nil {
			o.mu.Lock()
			o.rolled++
			o.mu.Unlock()
		}
	}
	return nil
}

// transaction is one of a writer's.
type transaction struct {
	rolledBack bool
	sql        strings.Builder
	to, titles []string
}

func (tx *transaction) add(db database, r *rand.Rand, to, title string) {
	tx.sql.WriteString(db.change(r, to, title))
	tx.to, tx.titles = append(tx.to, to), append(tx.titles, title)
}

func tell(whom chan struct{}) {
	select {
	case whom <- struct{}{}:
	default:
	}
}

// writer runs one transaction after the other.
type writer struct {
	*office
	number, done int
	rand         *rand.Rand
	c            session
}

// transaction makes the next transaction. Most are small.
func (w *writer) transaction() *transaction {
	tx := &transaction{rolledBack: w.rand.Float64() < rolledBack}
	mine := ofWriter(w.number)
	size := int(math.Exp(w.rand.Float64() * math.Log(float64(w.largest))))
	for i := range size {
		title := fmt.Sprintf("%d.%d.%d", w.number, w.done, i)
		if size >= w.large {
			title += part
		}
		if tx.rolledBack {
			title += never
		}
		tx.add(w.db, w.rand, mine[w.rand.IntN(len(mine))], title)
	}
	return tx
}

// commit commits a transaction. If the database ends meanwhile, what it kept says whether the transaction must run again.
func (w *writer) commit(ctx context.Context, tx *transaction) error {
	if len(tx.titles) >= w.large {
		tell(w.running)
	}
	sql := fmt.Sprintf("BEGIN;%sINSERT INTO done VALUES (%d, %d);COMMIT", tx.sql.String(), w.number, w.done)
	for err := w.exec(ctx, sql); err != nil; {
		if ctx.Err() != nil {
			return fmt.Errorf("commit: %w", err)
		}
		kept, asked := w.kept(ctx)
		switch {
		case asked != nil: // it is still down
			time.Sleep(10 * time.Millisecond)
			continue
		case kept:
			err = nil
		default:
			err = w.exec(ctx, sql)
		}
		w.mu.Lock()
		if w.unsure++; !kept {
			w.repeated++
		}
		w.mu.Unlock()
	}
	w.done++
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commits++
	w.changes += len(tx.titles)
	for i, to := range tx.to {
		w.want[to] = append(w.want[to], tx.titles[i])
	}
	return nil
}

// kept reports whether the last transaction was committed.
func (w *writer) kept(ctx context.Context) (kept bool, err error) {
	if err := w.connect(ctx); err != nil {
		return false, err
	}
	return w.c.exists(ctx, fmt.Sprintf("SELECT 1 FROM done WHERE writer = %d AND number = %d", w.number, w.done))
}

func (w *writer) connect(ctx context.Context) (err error) {
	if w.c != nil && w.c.lost() {
		w.close()
	}
	if w.c == nil {
		w.c, err = w.db.connect(ctx)
	}
	return err
}

func (w *writer) exec(ctx context.Context, sql string) error {
	if err := w.connect(ctx); err != nil {
		return err
	}
	return w.c.exec(ctx, sql)
}

func (w *writer) close() {
	if w.c != nil {
		w.c.close()
		w.c = nil
	}
}

// compare reports lost, doubled and foreign changes of all recipients.
func (o *office) compare(t *testing.T, has func(to string) []string) {
	t.Helper()
	for _, to := range recipients() {
		got, want := has(to), o.want[to]
		if slices.Equal(got, want) {
			continue
		}
		for i, title := range got[:min(len(got), len(want))] {
			if title != want[i] {
				t.Errorf("%s: %d notifications are as committed, then come %.200q, want %.200q", to, i, got[i:min(i+5, len(got))], want[i:min(i+5, len(want))])
				break
			}
		}
		count := make(map[string]int)
		for _, title := range got {
			count[title]++
		}
		var lost, doubled, foreign []string
		for _, title := range want {
			switch n := count[title]; {
			case n == 0:
				lost = append(lost, title)
			case n > 1:
				doubled = append(doubled, title)
			}
			delete(count, title)
		}
		for title := range count {
			foreign = append(foreign, title)
		}
		t.Errorf("%s has %d notifications of %d that were committed: %d lost %.200q, %d twice %.200q, %d that nobody committed %.200q, or another order", to,
			len(got), len(want), len(lost), lost, len(doubled), doubled, len(foreign), foreign)
	}
}
