package postgres_test

import (
	"strings"
	"testing"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/postgres"
)

func TestChangesOfPartitionsAreThoseOfTheirTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(`CREATE SCHEMA "Odd.Place"`, `CREATE TABLE "Odd.Place"."ga""te" ("Größe 名" text PRIMARY KEY, state text) PARTITION BY HASH ("Größe 名")`,
		`CREATE TABLE half PARTITION OF "Odd.Place"."ga""te" FOR VALUES WITH (MODULUS 2, REMAINDER 0)`,
		`CREATE TABLE other PARTITION OF "Odd.Place"."ga""te" FOR VALUES WITH (MODULUS 2, REMAINDER 1)`,
		`INSERT INTO "Odd.Place"."ga""te" VALUES ('old', 'shut')`)
	table := map[string]any{"table": `"Odd.Place"."ga""te"`, "group": "gates", "object": "Größe 名", "payload": []string{"state"}}
	w.set(postgres.FieldTables, []any{table}, postgres.FieldSnapshot, true)
	w.Becomes(source.Running, "")
	w.object("old", `{"state":"shut"}`)
	w.sql(`INSERT INTO "Odd.Place"."ga""te" SELECT 'g' || i, i FROM generate_series(1, 4) i`)
	for _, name := range []string{"1", "2", "3", "4"} {
		w.object("g"+name, `{"state":"`+name+`"}`)
	}

	w.Stop() // the publication of a build that told changes as those of partitions
	w.sql(`ALTER PUBLICATION godwit_shop SET (publish_via_partition_root = false)`)
	w.Run()
	w.Becomes(source.Running, "")
	w.sql(`UPDATE "Odd.Place"."ga""te" SET state = 'later'`)
	w.object("g1", `{"state":"later"}`)
	w.object("g4", `{"state":"later"}`)
}

func TestATableThatThePublicationLacksIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(schema, `CREATE PUBLICATION mine FOR TABLE orders`)
	w.set(postgres.FieldTables, []any{orders, gates}, postgres.FieldPublication, "mine")
	w.Becomes(source.Failing, `the publication mine does not have the table public.gate: ALTER PUBLICATION "mine" ADD TABLE "public"."gate"`)
	w.sql(`ALTER PUBLICATION mine ADD TABLE gate`)
	w.Becomes(source.Running, "")
	w.sql(`INSERT INTO gate VALUES ('a', 'open', '')`)
	w.object("a", `{"state":"open"}`)
	w.sql(`ALTER PUBLICATION mine DROP TABLE gate`)
	w.Becomes(source.Failing, `the publication mine does not have the table public.gate`)
}

// PostgreSQL describes tables and types once a connection. An entry that is read again over another connection keeps its id.
func TestIDsOfRowsDoNotDependOnTheConnection(t *testing.T) {
	t.Parallel()
	w := newTables(t)
	w.sql(`INSERT INTO orders (id, customer, state) VALUES (1, 'ann', 'new')`, `INSERT INTO orders (id, customer, state) VALUES (2, 'ann', 'new')`)
	w.gets(`ann Your order {"id":1,"price":null,"tags":null,"extra":null,"state":"new","paid":null}`,
		`ann Your order {"id":2,"price":null,"tags":null,"extra":null,"state":"new","paid":null}`)
	for id := range w.IDs() {
		if !strings.HasSuffix(id, "-1") {
			t.Errorf("the first change of a commit has the id %s", id)
		}
	}
}

func TestValuesLookTheSameWhateverTheDatabaseSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(`CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'`, `ALTER DATABASE latin SET datestyle = 'SQL, DMY'`,
		`ALTER DATABASE latin SET intervalstyle = 'iso_8601'`, `ALTER DATABASE latin SET bytea_output = 'escape'`)
	url := w.reads("latin", `CREATE TABLE orders (customer text, name text, day date, span interval, bytes bytea)`)
	w.in(url, `SET datestyle = 'ISO'; INSERT INTO orders VALUES ('ann', 'Zo' || chr(235), '2026-11-03', '1 day 02:00', '\x00')`)
	w.gets(`ann  {"customer":"ann","name":"Zoë","day":"2026-11-03","span":"1 day 02:00:00","bytes":"\\x00"}`)
}

// The server cannot convert what a database of the encoding SQL_ASCII holds. A value that is no UTF-8 must not stop the source.
func TestADatabaseWithoutAnEncodingIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(`CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'`)
	url := w.reads("ascii", `CREATE TABLE orders (customer text, name text)`)
	w.in(url, `INSERT INTO orders VALUES ('ann', E'caf\xe9!'), ('bob', 'Zoë')`, `SELECT pg_logical_emit_message(true, 'godwit.shop', E'{"to":"ann","title":"\xe9"}')`,
		emits(`{"to":"ann","title":"after"}`))
	w.gets(`ann  {"customer":"ann","name":"caf�!"}`, `bob  {"customer":"bob","name":"Zoë"}`, "ann after ")
	if q := w.quarantined(); len(q) != 1 || !strings.Contains(q[0], "not valid UTF-8") {
		t.Errorf("in quarantine are %q", q)
	}
}

// reads makes the source read the table orders of another database, once statements have run there, and returns the database's URL.
func (w *world) reads(database string, statements ...string) string {
	w.Helper()
	url := strings.Replace(w.pg.URL(), "/"+w.text("SELECT current_database()"), "/"+database, 1)
	w.in(url, statements...)
	table := map[string]any{"table": "orders", "recipient": "customer"}
	w.set(postgres.FieldURL, url, postgres.FieldTables, []any{table})
	w.Becomes(source.Running, "")
	return url
}

func TestTypesThatUsersMadeAreWhatTheyAreMadeOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(`CREATE DOMAIN small AS int CHECK (value < 100); CREATE DOMAIN smaller AS small; CREATE TYPE state AS ENUM ('new', 'a b'); CREATE TYPE place AS (street text, n int);
		CREATE TABLE gate (name text PRIMARY KEY, n smaller, list smaller[], states state[], at place, ways place[])`)
	const row = `5, '{1,NULL}', '{new,"a b"}', ROW('x, y', 1), ARRAY[ROW('x', 1)::place])`
	w.sql(`INSERT INTO gate VALUES ('before', ` + row)
	table := map[string]any{"table": "gate", "group": "gates", "object": "name", "payload": []string{"n", "list", "states", "at", "ways"}}
	w.set(postgres.FieldTables, []any{table}, postgres.FieldSnapshot, true)
	w.Becomes(source.Running, "")
	w.sql(`INSERT INTO gate VALUES ('after', ` + row)
	for _, name := range []string{"before", "after"} {
		w.object(name, `{"n":5,"list":[1,null],"states":["new","a b"],"at":"(\"x, y\",1)","ways":["(x,1)"]}`)
	}
}
