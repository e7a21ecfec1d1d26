package outbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/outbox"
	"godwit.dev/godwit/internal/sending/foreign"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/mariaserver"
	"godwit.dev/godwit/internal/testkit/mariaserver/mariatest"
)

const stamped = "body varchar(4000), created_at timestamp DEFAULT CURRENT_TIMESTAMP"

// shapes are tables, and why they are not read; empty: they are.
var shapes = []struct{ kind, ddl, says string }{
	{"", "TABLE t (id bigint, " + stamped + ")", "two rows of t may have the same id"},
	{"", "TABLE t (id bigint, part int, " + stamped + ", PRIMARY KEY (id, part))", "two rows of t may have the same id"},
	{"", "VIEW t AS SELECT * FROM godwit_outbox", "two rows of t may have the same id"},
	{"", "TABLE t (id bigint NOT NULL PRIMARY KEY, body varchar(4000))", "no column created_at"},
	{"", "TABLE t (id bigint NOT NULL PRIMARY KEY, text varchar(4000))", "no column body"},
	{"", "TABLE t (id char(36) NOT NULL PRIMARY KEY, body varchar(4000))", ""},
	{outbox.PostgreSQL, "TABLE t (id uuid PRIMARY KEY, body jsonb, created_at bigint)", ""},
	{outbox.PostgreSQL, "TABLE t (id bytea PRIMARY KEY, body jsonb)", "no column id of a type"},
	{outbox.PostgreSQL, "TABLE t (id bigint, body json, created_at timestamptz) PARTITION BY RANGE (id); CREATE UNIQUE INDEX ON t (id)", ""},
	{outbox.PostgreSQL, "TABLE t (id bigint, body json, created_at timestamptz); CREATE UNIQUE INDEX ON t (id) WHERE id > 10", "two rows of t may have the same id"},
	{outbox.MySQL, "TABLE t (id decimal(20) NOT NULL PRIMARY KEY, " + stamped + ")", "no column id of a type"},
	{outbox.MySQL, "TABLE t (id varchar(100) NOT NULL, body text, UNIQUE (id(10)))", "two rows of t may have the same id"},
	{outbox.SQLite, "TABLE t (id INTEGER PRIMARY KEY, " + stamped + ")", "numbers of deleted ones again"},
	{outbox.SQLite, "TABLE t (id PRIMARY KEY, " + stamped + ")", "no column id of a type"},
	{outbox.SQLite, "TABLE t (id TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID", ""},
}

func TestTablesAreCheckedBeforeTheyAreRead(t *testing.T) {
	each(t, func(w *world) {
		for _, s := range shapes {
			if s.kind != "" && s.kind != w.Name {
				continue
			}
			for _, ddl := range strings.Split("CREATE "+s.ddl, ";") {
				w.db.exec(w.T, ddl)
			}
			err := w.opens("t")
			if s.says == "" && err != nil || s.says != "" && (err == nil || !strings.Contains(err.Error(), s.says)) {
				w.Errorf("%s: %v", s.ddl, err)
			}
			if logged := foreign.Cause(err); s.says != "" && !strings.Contains(logged, s.says) {
				w.Errorf("%s: the log says %s", s.ddl, logged)
			}
			what, _, _ := strings.Cut(s.ddl, " ")
			w.db.exec(w.T, "DROP "+what+" t")
		}
	})
}

func TestNothingIsSentIfRowsCannotBeDeleted(t *testing.T) {
	each(t, func(w *world) {
		var says string
		switch w.Name {
		case outbox.PostgreSQL:
			w.db.exec(w.T, "DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN; GRANT SELECT, UPDATE ON godwit_outbox TO reader")
			setting.Put(w.Values, outbox.FieldURL, strings.Replace(w.Values.Text(outbox.FieldURL), "user=postgres", "user=reader", 1))
			says = "permission denied for table godwit_outbox (42501)"
		case outbox.MySQL:
			w.db.exec(w.T, "CREATE OR REPLACE USER reader; GRANT SELECT, UPDATE ON godwit_outbox TO reader")
			setting.Put(w.Values, outbox.FieldURL, strings.Replace(w.Values.Text(outbox.FieldURL), mariaserver.User+"@", "reader@", 1))
			setting.Put(w.Values, outbox.FieldPassword, "")
			says = "DELETE command denied to user"
		default:
			w.db.exec(w.T, "CREATE TRIGGER t BEFORE DELETE ON godwit_outbox BEGIN SELECT RAISE(ABORT, 'rows stay'); END")
			if err := w.opens("godwit_outbox"); err != nil { // only a row shows it
				w.Error(err)
			}
			return
		}
		err := w.opens("godwit_outbox")
		if err == nil || !strings.Contains(err.Error(), "none is read") || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "GRANT SELECT, UPDATE, DELETE ON godwit_outbox") {
			w.Error(err)
		}
		if logged := foreign.Cause(err); !strings.HasPrefix(logged, "the database refused it with the code 42") {
			w.Errorf("the log says %s", logged)
		}
	})
}

func TestRowsThatATriggerKeepsAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, outbox.PostgreSQL)
	w.db.exec(t, "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER keep BEFORE DELETE ON godwit_outbox FOR EACH ROW EXECUTE FUNCTION keep()")
	w.insert(`{"to":"ann","title":"1"}`)
	w.Start(true)
	w.Becomes(source.Failing, "look for a policy, rule or trigger")
	w.Gets("ann 1")
}

func TestRowsThatOthersHaveLockedWaitAndAreCounted(t *testing.T) {
	each(t, func(w *world) {
		w.insert(`{"to":"ann","title":"1"}`)
		commit := w.db.begin(w.T, "SELECT id FROM godwit_outbox WHERE id = 1 FOR UPDATE")
		w.insert(`{"to":"bob","title":"2"}`)
		w.Start(true)
		w.Gets("bob 2")
		if !eventually.Holds(func() bool { l := w.Info().Lag; return l != nil && l.Entries == 1 && l.Time > 0 }) {
			w.Errorf("the lag is %+v", w.Info().Lag)
		}
		commit()
		w.Gets("ann 1")
	})
}

func TestLongBodiesAreReadInParts(t *testing.T) {
	each(t, func(w *world) {
		var bodies, want []string
		blanks := strings.Repeat(" ", 200<<10)
		for i := range 100 {
			bodies = append(bodies, fmt.Sprintf(`{"to":"ann","title":"%d"%s}`, i, blanks))
			want = append(want, fmt.Sprintf("ann %d", i))
		}
		w.insert(bodies[:50]...)
		w.insert(bodies[50:]...)
		w.Start(true)
		w.Gets(want...)
		w.rows("0", "SELECT COUNT(*) FROM godwit_outbox")
	})
}

func TestARowThatTookTheNumberOfAnotherIsNotDeletedWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, outbox.SQLite)
	w.insert(`{"to":"ann","title":"1"}`)
	w.Once(func() {
		w.db.exec(t, "DELETE FROM godwit_outbox")
		w.db.exec(t, `INSERT INTO godwit_outbox (id, body, created_at) VALUES (1, '{"to":"ann","title":"2"}', '2026-01-02')`)
	})
	w.Start(true)
	w.Gets("ann 1", "ann 2")
}

func TestAFileThatTakesAnothersPlaceIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, outbox.SQLite)
	w.db.exec(t, "PRAGMA journal_mode = DELETE") // a write-ahead log that is left would be taken for the other file's
	w.insert(`{"to":"ann","title":"1"}`)
	w.Start(true)
	w.Gets("ann 1")
	w.rows("0", "SELECT COUNT(*) FROM godwit_outbox")
	path := w.Values.Text(outbox.FieldPath)
	other := liteDB{filepath.Join(t.TempDir(), "other.db")}
	w.db.exec(t, "VACUUM INTO '"+other.path+"'")
	other.exec(t, `INSERT INTO godwit_outbox (body) VALUES ('{"to":"ann","title":"2"}')`)
	if err := os.Rename(other.path, path); err != nil {
		t.Fatal(err)
	}
	w.Gets("ann 2")
}

func TestABodyWithANULIsNotCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, outbox.SQLite)
	w.db.exec(t, `INSERT INTO godwit_outbox (body) VALUES ('{"to":"ann","title":"1"}' || char(0) || 'x')`)
	w.insert(`{"to":"ann","title":"2"}`)
	w.Start(true)
	w.Gets("ann 2")
	if list := w.Quarantine(1); !strings.HasSuffix(string(list[0].Text), "\x00x") {
		t.Errorf("in quarantine is %q", list[0].Text)
	}
}

func TestRowsWithoutAnIDStopTheSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, outbox.SQLite)
	w.db.exec(t, "CREATE TABLE named (id TEXT PRIMARY KEY, body TEXT)")
	w.db.exec(t, `INSERT INTO named VALUES (x'01', '{"to":"ann","title":"1"}')`)
	setting.Put(w.Values, outbox.FieldTable, "named")
	w.Start(true)
	w.Becomes(source.Failing, "id is NULL or a BLOB")
	w.db.exec(t, "UPDATE named SET id = 'one'")
	w.Gets("ann 1")
}

func TestAPasswordMayChange(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, outbox.MySQL, mariatest.Start(t))
	w.Start(true)
	w.insert(`{"to":"ann","title":"1"}`)
	w.Gets("ann 1")
	if err := w.maria.Do("ALTER USER godwit IDENTIFIED BY 'closesesame'"); err != nil {
		t.Fatal(err)
	}
	if err := w.maria.Restart(); err != nil {
		t.Fatal(err)
	}
	w.Becomes(source.Failing, "Access denied for user")
	if said := w.Info().Error; strings.Contains(said, "sesame") {
		t.Error(said)
	}
	w.insert(`{"to":"ann","title":"2"}`)
	v := setting.Values{}
	for _, field := range []string{outbox.FieldURL, outbox.FieldCA} {
		setting.Put(v, field, w.Values.Text(field))
	}
	setting.Put(v, outbox.FieldPassword, "closesesame")
	if _, _, err := w.Service.Set(t.Context(), "shop", w.Name, source.Change{Values: v, Private: true}); err != nil {
		t.Fatal(err)
	}
	w.Gets("ann 2")
}

func TestAServerThatOthersVouchForIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, outbox.MySQL)
	setting.Put(w.Values, outbox.FieldCA, "")
	setting.Put(w.Values, outbox.FieldURL, w.maria.Of(w.name)+"?sslmode=verify-full")
	if err := w.opens("godwit_outbox"); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Error(err)
	}
	for _, mode := range []string{"disable", "require"} {
		setting.Put(w.Values, outbox.FieldURL, w.maria.Of(w.name)+"?sslmode="+mode)
		if err := w.opens("godwit_outbox"); (err == nil) != (mode == "require") { // the user must use TLS
			t.Errorf("%s: %v", mode, err)
		}
	}
}
