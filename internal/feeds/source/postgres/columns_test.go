package postgres_test

import (
	"strings"
	"testing"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/postgres"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// A first copy must not put what the log never has: the next change of the row would take it away.
func TestACopyHasTheColumnsAndRowsOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(
		`CREATE TABLE gate (secret text, name text PRIMARY KEY, width int, area int GENERATED ALWAYS AS (width * 2) STORED)`,
		`INSERT INTO gate SELECT 'x', 'g' || i, i FROM generate_series(1, 1200) i`,
	)
	table := map[string]any{"table": "gate", "group": "gates", "object": "name", "payload": []string{"width", "area"}}
	w.set(postgres.FieldTables, []any{table}, postgres.FieldSnapshot, true)
	w.Becomes(source.Failing, "the table public.gate has no column area, or the log lacks it")
	if n := len(w.Objects()); n != 0 {
		t.Errorf("%d objects are there", n)
	}
	table["payload"] = []string{"width", "secret"}
	w.set(postgres.FieldTables, []any{table}, postgres.FieldSnapshot, true)
	w.object("g1", `{"width":1,"secret":"x"}`)
	w.object("g1200", `{"width":1200,"secret":"x"}`)
	w.sql(`UPDATE gate SET width = 7 WHERE name = 'g1'`)
	w.object("g1", `{"width":7,"secret":"x"}`)
}

func TestACopyHonoursTheColumnsAndTheConditionOfAPublication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.needs(15)
	w.sql(
		`CREATE TABLE gate (secret text, name text PRIMARY KEY, width int)`,
		`INSERT INTO gate SELECT 'x', 'g' || i, i FROM generate_series(1, 1200) i`,
		`CREATE PUBLICATION mine FOR TABLE gate (name, width) WHERE (name <> 'g5')`,
	)
	w.set(postgres.FieldTables, []any{map[string]any{"table": "gate", "group": "gates", "object": "name", "payload": []string{"name", "width"}}}, postgres.FieldSnapshot, true, postgres.FieldPublication, "mine")
	w.object("g1", `{"name":"g1","width":1}`)
	w.object("g999", `{"name":"g999","width":999}`) // by names it is the last one
	if n := len(w.Objects()); n != 1199 {
		t.Errorf("%d objects", n)
	}
	w.sql(`UPDATE gate SET width = 7 WHERE name IN ('g1', 'g5')`)
	w.object("g1", `{"name":"g1","width":7}`)
	if n := len(w.Objects()); n != 1199 {
		t.Errorf("%d objects", n)
	}
}

// A publication of inserts alone may leave the primary key out, by which a copy reads.
func TestACopyNeedsNoKeyAmongTheColumns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.needs(15)
	w.sql(
		`CREATE TABLE gate (id int PRIMARY KEY, name text)`,
		`INSERT INTO gate SELECT i, 'g' || i FROM generate_series(1, 1200) i`,
		`CREATE PUBLICATION mine FOR TABLE gate (name) WITH (publish = 'insert')`,
	)
	w.set(postgres.FieldTables, []any{map[string]any{"table": "gate", "group": "gates", "object": "name", "payload": []string{"name"}}}, postgres.FieldSnapshot, true, postgres.FieldPublication, "mine")
	w.object("g1", `{"name":"g1"}`)
	w.object("g1200", `{"name":"g1200"}`)
	w.sql(`INSERT INTO gate VALUES (0, 'g0')`)
	w.object("g0", `{"name":"g0"}`)
}

func TestAMappedColumnThatTheLogLacksIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(`CREATE TABLE rides (driver text PRIMARY KEY, first text, full_name text GENERATED ALWAYS AS ('Mr. ' || first) STORED)`)
	for _, table := range []postgres.Table{
		{Table: "rides", Recipient: "driver", Data: []string{"full_name"}},
		{Table: "rides", Recipient: "driver", Title: "full_name"}, // which would be the title itself
	} {
		w.finds([]string{"false the log lacks the columns full_name of public.rides", "generated"}, postgres.FieldTables, []postgres.Table{table})
	}
	w.set(postgres.FieldTables, []any{map[string]any{"table": "rides", "recipient": "driver", "data": []string{"full_name"}}})
	w.Becomes(source.Running, "")
	w.sql(`INSERT INTO rides VALUES ('ann', 'Ann')`)
	if !eventually.Holds(func() bool { return len(w.quarantined()) == 1 }) || !strings.Contains(w.quarantined()[0], "has no column full_name") {
		t.Errorf("in quarantine are %q", w.quarantined())
	}
}

func TestGeneratedColumnsThatAPublicationHasAreRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.needs(18)
	w.sql(
		`CREATE TABLE gate (name text PRIMARY KEY, width int, area int GENERATED ALWAYS AS (width * 2) STORED)`, `INSERT INTO gate VALUES ('g1', 1)`,
		`CREATE PUBLICATION mine FOR TABLE gate WITH (publish_generated_columns = stored)`,
	)
	w.set(postgres.FieldTables, []any{map[string]any{"table": "gate", "group": "gates", "object": "name", "payload": []string{"area"}}}, postgres.FieldSnapshot, true, postgres.FieldPublication, "mine")
	w.object("g1", `{"area":2}`)
	w.sql(`UPDATE gate SET width = 2`)
	w.object("g1", `{"area":4}`)
}
