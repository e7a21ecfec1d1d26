package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/postgres"
	"godwit.dev/godwit/internal/server/httpapi/backend"
)

// shown writes a preview as one line a row.
func shown(t *testing.T, p source.Preview) (lines []string) {
	t.Helper()
	for _, table := range p.Tables {
		for _, row := range table.Rows {
			if len(row.Entry) > 0 {
				if _, err := backend.ReadEntries(row.Entry); err != nil {
					t.Errorf("the API does not take %s: %v", row.Entry, err)
				}
			}
			lines = append(lines, table.Table+" "+string(row.Entry)+row.Error)
		}
		if table.Error != "" {
			lines = append(lines, table.Table+" error "+table.Error)
		}
	}
	if p.Error != "" {
		lines = append(lines, "error "+p.Error)
	}
	return lines
}

// previews compares a preview of tables, made after a change of the source, with what it begins each line with.
func (w *world) previews(values setting.Values, want ...string) {
	w.Helper()
	p, err := w.Service.Preview(w.Context(), "shop", postgres.Name, source.Change{Values: values, Private: true})
	if err != nil {
		w.Fatal(err)
	}
	got := shown(w.T, p)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			w.Fatalf("the preview is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func mapping(tables ...any) setting.Values {
	return setting.Values{postgres.FieldTables: setting.JSON(tables)}
}

func table(name string, with ...any) map[string]any {
	m := map[string]any{"table": name, "recipient": "who", "title": "Hi", "data": []string{}}
	for i := 0; i < len(with); i += 2 {
		m[with[i].(string)] = with[i+1]
	}
	return m
}

func TestAPreviewShowsWhatRowsWouldBecome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(schema,
		`INSERT INTO orders VALUES (1, 'ann', '<soon>', 12345678901234567890.50, '{a,"b c"}', '{"k": [1]}', 'new', true)`, `INSERT INTO orders (id, customer) VALUES (2, NULL), (3, 'not a name')`,
		`INSERT INTO gate SELECT 'g' || i, i FROM generate_series(1, 7) i`)
	url := setting.Values{postgres.FieldURL: setting.JSON(w.pg.URL()), postgres.FieldTables: setting.JSON([]any{orders, gates})}
	want := []string{
		`public.orders {"to":["ann"],"title":"Your order","body":"<soon>","data":{"id":1,"price":12345678901234567890.50,"tags":["a","b c"],"extra":{"k":[1]},"state":"new","paid":true}}`,
		`public.orders the column customer of public.orders is null: there is no recipient`,
		`public.orders to: contains ' '`,
	}
	for i := 1; i <= 5; i++ {
		want = append(want, fmt.Sprintf(`public.gate {"put":{"group":"gates","object":"g%d","payload":{"state":"%d"}}}`, i, i))
	}
	w.previews(url, want...)
	if _, err := w.Service.Get("shop", postgres.Name); !errors.Is(err, source.ErrNone) {
		t.Errorf("the preview has stored a source: %v", err)
	}
	if n := w.text("SELECT (SELECT count(*) FROM pg_replication_slots) || '/' || (SELECT count(*) FROM pg_publication)"); n != "0/0" {
		t.Errorf("the preview has made slots/publications: %s", n)
	}
	if len(w.Came())+len(w.Objects()) != 0 {
		t.Errorf("the preview has published %q and put %v", w.Came(), w.Objects())
	}

	p, err := w.Service.Preview(t.Context(), "shop", postgres.Name, source.Change{Values: url})
	if err != nil || !strings.Contains(p.Error, "not public") || len(p.Tables) != 0 {
		t.Errorf("at a private address, by somebody who may not use it: %+v, %v", p, err)
	}
	if _, err := w.Service.Preview(t.Context(), "shop", postgres.Name, source.Change{}); !errors.Is(err, source.ErrNone) {
		t.Errorf("of no source: %v", err)
	}

	w.set(postgres.FieldTables, []any{gates}) // from here on the source is stored
	w.previews(nil, want[3:]...)
	w.previews(mapping(table("gate", "recipient", "name", "on", []string{"delete"})), `public.gate {"to":["g1"],"title":"Hi"}`, `public.gate {"to":["g2"],"title":"Hi"}`, `public.gate {"to":["g3"],"title":"Hi"}`, `public.gate {"to":["g4"],"title":"Hi"}`, `public.gate {"to":["g5"],"title":"Hi"}`)
	if p, err := w.Service.Preview(t.Context(), "shop", postgres.Name, source.Change{}); err != nil || p.Error != "" {
		t.Errorf("of a source that may use private addresses: %+v, %v", p, err)
	}
	other := setting.Values{postgres.FieldURL: setting.JSON("postgres://u@127.0.0.1:1/d")}
	if p, err := w.Service.Preview(t.Context(), "shop", postgres.Name, source.Change{Values: other}); err != nil || !strings.Contains(p.Error, "not public") {
		t.Errorf("at another private address: %+v, %v", p, err)
	}
}

func TestAPreviewSaysWhichTablesAreMappedWrongly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(`CREATE TABLE good (who text)`, `INSERT INTO good VALUES ('ann')`, `CREATE VIEW seen AS SELECT * FROM good`, `CREATE TABLE empty (who text)`,
		`CREATE TABLE made (who text, twice text GENERATED ALWAYS AS (who || who) STORED)`, `CREATE TABLE locked (who text)`,
		`CREATE TABLE large (who text, picture text)`, `INSERT INTO large VALUES ('bob', ''), ('ann', repeat('x', 2000000))`,
		`CREATE TABLE wide (who text, picture text)`, `INSERT INTO wide SELECT 'ann', repeat('x', 1000000) FROM generate_series(1, 5)`,
		`CREATE ROLE reader LOGIN`, `GRANT SELECT ON good, large TO reader`)
	w.set(postgres.FieldTables, []any{})
	if _, err := w.Service.Preview(t.Context(), "shop", postgres.Name, source.Change{Values: mapping(table("good", "title", ""))}); err == nil || !strings.Contains(err.Error(), "its notifications would be empty") {
		t.Errorf("a mapping of nothing: %v", err)
	}
	w.previews(nil)
	w.previews(mapping(table("missing"), table("good", "id", "number"), table("empty", "id", "number"), table("seen"), table("pg_catalog.pg_authid", "recipient", "rolname"), table("locked"), table("empty2.x"), table("made", "title", "x", "data", []string{"twice"}), table("good", "table", `"public".good2`)),
		"public.missing error the table does not exist", "public.good error the table public.good has no column number", "public.empty error the table public.empty has no column number", "public.seen error it is no table whose changes the log has",
		"pg_catalog.pg_authid error it is no table whose changes the log has", "empty2.x error the table does not exist", "public.made error the table public.made has no column twice", "public.good2 error the table does not exist")
	w.previews(mapping(table("large"), table("good"), table("locked", "on", []string{}), table("wide"), table("empty")),
		`public.large {"to":["bob"],"title":"Hi"}`, "public.large error a row has 2000", `public.good {"to":["ann"],"title":"Hi"}`, "public.locked error its on is empty",
		`public.wide {"to":["ann"],"title":"Hi"}`, `public.wide {"to":["ann"],"title":"Hi"}`, `public.wide {"to":["ann"],"title":"Hi"}`, `public.wide {"to":["ann"],"title":"Hi"}`, `public.wide {"to":["ann"],"title":"Hi"}`, "public.empty error the tables before it fill the 4 MiB")

	values := mapping(table("locked"), table("good"))
	values[postgres.FieldURL] = setting.JSON(strings.Replace(w.pg.URL(), "user=postgres", "user=reader", 1))
	w.previews(values, "public.locked error ERROR: permission denied for table locked (SQLSTATE 42501): the user needs GRANT SELECT", `public.good {"to":["ann"],"title":"Hi"}`)

	c, err := pgx.Connect(t.Context(), w.pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "BEGIN; LOCK TABLE good"); err != nil {
		t.Fatal(err)
	}
	w.previews(mapping(table("good"), table("large")), "public.good error ERROR: canceling statement due to lock timeout", `public.large {"to":["bob"],"title":"Hi"}`, "public.large error a row has")
}

// Reading a table may run functions of its owner. In a preview they cannot write.
func TestAPreviewWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(`CREATE TABLE seen (n int)`, `CREATE FUNCTION notes() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO public.seen VALUES (1); RETURN true; END $$`,
		`CREATE TABLE rides (who text)`, `INSERT INTO rides VALUES ('ann')`, `ALTER TABLE rides ENABLE ROW LEVEL SECURITY`, `CREATE POLICY p ON rides USING (notes())`,
		`CREATE ROLE reader LOGIN`, `GRANT SELECT ON rides TO reader`)
	values := mapping(table("rides"))
	values[postgres.FieldURL] = setting.JSON(strings.Replace(w.pg.URL(), "user=postgres", "user=reader", 1))
	w.previews(values, "public.rides error ERROR: cannot execute INSERT in a read-only transaction")
	if n := w.text("SELECT count(*)::text FROM seen"); n != "0" {
		t.Errorf("the preview has written %s rows", n)
	}
}
