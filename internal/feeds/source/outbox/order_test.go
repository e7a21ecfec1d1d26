package outbox_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/outbox"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// stuck never stores what it gets.
type stuck struct {
	source.Emitter
	got chan int
}

func (s stuck) Emit(ctx context.Context, entries []source.Entry) ([]source.Outcome, error) {
	s.got <- len(entries)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// reader starts another reader of the table, which has read its first page and stores nothing of it until the returned function ends it.
func (w *world) reader() (end func()) {
	w.Helper()
	f, err := outbox.Kinds(func(string) bool { return false })[w.Name].Open(w.Context(), source.Target{App: "shop", Name: w.Name, Values: maps.Clone(w.Values), Targets: urlguard.All})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, ended := stuck{got: make(chan int, 1)}, make(chan error, 1)
	go func() { ended <- f.Run(ctx, s) }()
	select {
	case <-s.got:
	case err := <-ended:
		w.Errorf("the other reader ended: %v", err)
	}
	return func() { cancel(); <-ended; f.Close() }
}

func TestRowsThatAFormerReaderStillHoldsAreNotOvertaken(t *testing.T) {
	each(t, func(w *world) {
		var bodies, want []string
		for i := range 60 { // three times a first page
			bodies, want = append(bodies, fmt.Sprintf(`{"to":"ann","title":"%d"}`, i)), append(want, fmt.Sprintf("ann %d", i))
		}
		w.insert(bodies...)
		end := w.reader()
		w.Start(true)
		if !eventually.Holds(func() bool {
			return len(w.Came()) > 0 || strings.Contains(w.Info().Detail, "another reader of the table")
		}) {
			w.Errorf("nothing came, and the source does not wait: %+v", w.Info())
		}
		end()
		w.Gets(want...)
		w.rows("0", "SELECT COUNT(*) FROM godwit_outbox")
		w.Becomes(source.Running, "")
	})
}

func TestRowsAreFinishedBesideAnOpenTransaction(t *testing.T) {
	each(t, func(w *world) {
		w.insert(`{"to":"ann","title":"1"}`, `{"to":"ann","title":"2"}`, `{"to":"ann","title":"3"}`)
		commit := w.db.begin(w.T, `INSERT INTO godwit_outbox (body) VALUES ('{"to":"ann","title":"late"}')`)
		w.Start(true)
		w.Gets("ann 1", "ann 2", "ann 3")
		w.rows("0", "SELECT COUNT(*) FROM godwit_outbox")
		if i := w.Info(); i.Error != "" {
			w.Errorf("the source says %q", i.Error)
		}
		commit()
		w.Gets("ann late")
	})
}

func TestATransactionThatCommitsBetweenTwoPagesIsReadFromItsFirstRow(t *testing.T) {
	each(t, func(w *world) {
		w.Fill("full", true)
		commit := w.db.begin(w.T, `INSERT INTO godwit_outbox (id, body) VALUES (2, '{"to":"ann","title":"first"}'), (100, '{"to":"ann","title":"last"}')`)
		rows, want := []string{`(1, '{"to":"full","title":"waits"}')`}, []string(nil)
		for i := range 19 { // a first page, whose numbers lie between those two
			rows, want = append(rows, fmt.Sprintf(`(%d, '{"to":"bob","title":"%d"}')`, i+3, i)), append(want, fmt.Sprintf("bob %d", i))
		}
		w.db.exec(w.T, "INSERT INTO godwit_outbox (id, body) VALUES "+strings.Join(rows, ", "))
		w.Once(commit)
		w.Start(true)
		w.Gets(append(want, "ann first", "ann last")...)
	})
}

func TestRowsAreFinishedByTheIndexOfTheirIDs(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{
		"ascii":  "char(36) CHARACTER SET ascii NOT NULL PRIMARY KEY",
		"latin1": "varchar(40) CHARACTER SET latin1 NOT NULL PRIMARY KEY",
		"utf8":   "varchar(40) CHARACTER SET utf8mb3 NOT NULL PRIMARY KEY",
		"bytes":  "binary(16) NOT NULL PRIMARY KEY",
		"signed": "int NOT NULL, PRIMARY KEY (created_at), UNIQUE (id)",
		"large":  "bigint unsigned NULL UNIQUE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, outbox.MySQL)
			w.db.exec(t, "CREATE OR REPLACE TABLE godwit_outbox (body json, created_at timestamp(6) DEFAULT CURRENT_TIMESTAMP(6), id "+id+")")
			w.db.exec(t, `INSERT INTO godwit_outbox (id, body, created_at) VALUES ('1', '{"to":"ann","title":"1"}', '2026-01-01 10:00:00'), ('2', '{"to":"ann","title":"2"}', '2026-01-01 10:00:01')`)
			w.Start(true)
			w.Gets("ann 1", "ann 2")
			w.rows("0", "SELECT COUNT(*) FROM godwit_outbox")
		})
	}
}
