package postgres_test

import (
	"strings"
	"testing"

	"godwit.dev/godwit/internal/cluster/setting"
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
	w.becomes(source.Running, "")
	w.object("old", `{"state":"shut"}`)
	w.sql(`INSERT INTO "Odd.Place"."ga""te" SELECT 'g' || i, i FROM generate_series(1, 4) i`)
	for _, name := range []string{"1", "2", "3", "4"} {
		w.object("g"+name, `{"state":"`+name+`"}`)
	}

	w.stop() // the publication of a build that told changes as those of partitions
	w.sql(`ALTER PUBLICATION godwit_shop SET (publish_via_partition_root = false)`)
	w.start()
	w.becomes(source.Running, "")
	w.sql(`UPDATE "Odd.Place"."ga""te" SET state = 'later'`)
	w.object("g1", `{"state":"later"}`)
	w.object("g4", `{"state":"later"}`)
}

func TestATableThatThePublicationLacksIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(schema, `CREATE PUBLICATION mine FOR TABLE orders`)
	w.set(postgres.FieldTables, []any{orders, gates}, postgres.FieldPublication, "mine")
	w.becomes(source.Failing, `the publication mine does not have the table public.gate: ALTER PUBLICATION "mine" ADD TABLE "public"."gate"`)
	w.sql(`ALTER PUBLICATION mine ADD TABLE gate`)
	w.becomes(source.Running, "")
	w.sql(`INSERT INTO gate VALUES ('a', 'open', '')`)
	w.object("a", `{"state":"open"}`)
	w.sql(`ALTER PUBLICATION mine DROP TABLE gate`)
	w.becomes(source.Failing, `the publication mine does not have the table public.gate`)
}

// PostgreSQL describes tables and types once a connection. An entry that is read again over another connection keeps its id.
func TestIDsOfRowsDoNotDependOnTheConnection(t *testing.T) {
	t.Parallel()
	w := newTables(t)
	w.sql(`INSERT INTO orders (id, customer, state) VALUES (1, 'ann', 'new')`, `INSERT INTO orders (id, customer, state) VALUES (2, 'ann', 'new')`)
	w.gets(`ann Your order {"id":1,"price":null,"tags":null,"extra":null,"state":"new","paid":null}`,
		`ann Your order {"id":2,"price":null,"tags":null,"extra":null,"state":"new","paid":null}`)
	for id := range w.kept.ids {
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
	url := strings.Replace(w.pg.URL(), "/"+w.text("SELECT current_database()"), "/latin", 1)
	w.in(url, `CREATE TABLE orders (customer text, name text, day date, span interval, bytes bytea)`)
	table := map[string]any{"table": "orders", "recipient": "customer"}
	v := setting.Values{postgres.FieldURL: setting.JSON(url), postgres.FieldTables: setting.JSON([]any{table})}
	if _, _, err := w.Set(t.Context(), "shop", postgres.Name, source.Change{Values: v, Private: true}); err != nil {
		t.Fatal(err)
	}
	w.becomes(source.Running, "")
	w.in(url, `SET datestyle = 'ISO'; INSERT INTO orders VALUES ('ann', 'Zo' || chr(235), '2026-11-03', '1 day 02:00', '\x00')`)
	w.gets(`ann  {"customer":"ann","name":"Zoë","day":"2026-11-03","span":"1 day 02:00:00","bytes":"\\x00"}`)
}
