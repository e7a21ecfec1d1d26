package outbox_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source/outbox"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// encoded makes a PostgreSQL database of another encoding, with an outbox that has a row for ann, and reads it.
func encoded(t *testing.T, encoding, table string, statements ...string) *world {
	t.Helper()
	w := newWorld(t, outbox.PostgreSQL)
	name := "test_" + strings.ToLower(encoding) + "_" + w.db.count(t, "SELECT substr(md5(random()::text), 1, 12)")
	w.db.exec(t, "CREATE DATABASE "+name+" ENCODING '"+encoding+"' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
	t.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), pgtest.URL(t))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close(context.Background())
		if _, err := c.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	w.db.exec(t, "ALTER DATABASE "+name+" SET datestyle = 'SQL, DMY'")
	w.db.exec(t, "ALTER DATABASE "+name+" SET timezone = 'Asia/Kolkata'")
	url := strings.Replace(pgtest.URL(t), "/postgres", "/"+name, 1)
	w.db = pgDB{url}
	if encoding != "SQL_ASCII" {
		w.db = pgDB{url + "&client_encoding=UTF8"}
	}
	setting.Put(w.Values, outbox.FieldURL, url)
	setting.Put(w.Values, outbox.FieldTable, "box")
	w.db.exec(t, "CREATE TABLE box ("+table+")")
	for _, s := range statements {
		w.db.exec(t, s)
	}
	w.Start(true)
	return w
}

func TestDatabasesOfOtherEncodingsAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ encoding, name string }{{"LATIN1", "Zoë"}, {"WIN1252", "5 €"}, {"EUC_JP", "日本"}} {
		t.Run(c.encoding, func(t *testing.T) {
			t.Parallel()
			w := encoded(t, c.encoding, "id text PRIMARY KEY, body json, created_at timestamptz DEFAULT now()",
				`INSERT INTO box (id, body) VALUES ('`+c.name+`', '{"to":"ann","title":"`+c.name+`"}')`,
				`INSERT INTO box (id, body) VALUES ('2', '{"to":"ann","title":"\ud83d\ude00"}')`) // an escape may stand for what the encoding lacks
			w.Gets("ann "+c.name, "ann 😀")
			w.rows("0", "SELECT count(*)::text FROM box")
		})
	}
}

// The server cannot convert what a database of the encoding SQL_ASCII holds. A row that is no UTF-8 must not stop the others.
func TestAnOutboxWithoutAnEncodingIsRead(t *testing.T) {
	t.Parallel()
	w := encoded(t, "SQL_ASCII", "id text PRIMARY KEY, body text, created_at timestamptz DEFAULT now()",
		`INSERT INTO box VALUES ('1', '{"to":"ann","title":"Zoë"}')`,
		`INSERT INTO box VALUES ('2', E'{"to":"ann","title":"caf\xe9"}')`,
		`INSERT INTO box VALUES (E'\xe9', '{"to":"ann","title":"3"}')`)
	w.Gets("ann Zoë", "ann 3")
	if list := w.Quarantine(1); !strings.Contains(list[0].Why, "UTF-8") {
		t.Errorf("in quarantine is %v", list)
	}
	w.rows("0", "SELECT count(*)::text FROM box")
}

func TestTablesOfLatin1InMySQLAreRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, outbox.MySQL)
	w.db.exec(t, "CREATE TABLE box (id varchar(36) NOT NULL PRIMARY KEY, body text, created_at timestamp DEFAULT CURRENT_TIMESTAMP) CHARACTER SET latin1")
	w.db.exec(t, `INSERT INTO box (id, body) VALUES ('é', '{"to":"ann","title":"Zoë"}')`)
	setting.Put(w.Values, outbox.FieldTable, "box")
	w.Start(true)
	w.Gets("ann Zoë")
	w.rows("0", "SELECT count(*) FROM box")
}
