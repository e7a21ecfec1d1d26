package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/postgres"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// orders maps a table to notifications, gates one to objects.
var (
	orders = map[string]any{"table": "orders", "recipient": "customer", "title": "Your order", "body": "note", "data": []string{"id", "price", "tags", "extra", "state", "paid"}, "on": []string{"insert", "update"}}
	gates  = map[string]any{"table": "public.gate", "group": "gates", "object": "name", "payload": []string{"state"}}
)

const schema = `CREATE TYPE state AS ENUM ('new', 'sent');
	CREATE TABLE orders (id bigint PRIMARY KEY, customer text, note text, price numeric, tags text[], extra jsonb, state state, paid boolean);
	CREATE TABLE gate (name text PRIMARY KEY, state text, notes text)`

func newTables(t *testing.T, fields ...any) *world {
	t.Helper()
	w := newWorld(t)
	w.sql(schema, "INSERT INTO gate VALUES ('old', 'shut', '')")
	w.set(append([]any{postgres.FieldTables, []any{orders, gates}}, fields...)...)
	w.Becomes(source.Running, "")
	return w
}

func TestRowsBecomeNotificationsAndVersionsOfObjects(t *testing.T) {
	t.Parallel()
	w := newTables(t)
	w.sql(
		`INSERT INTO orders VALUES (1, 'ann', 'soon', 12345678901234567890.50, '{a,"b c"}', '{"k": [1]}', 'new', true)`,
		`BEGIN; INSERT INTO orders VALUES (2, 'bob', NULL, 'NaN', NULL, NULL, 'new', false); ROLLBACK`,
		`UPDATE orders SET state = 'sent', price = 1 WHERE id = 1`,
		`INSERT INTO orders (id, customer) VALUES (3, NULL)`,
		`DELETE FROM orders`,
	)
	w.gets(
		`ann Your order {"id":1,"price":12345678901234567890.50,"tags":["a","b c"],"extra":{"k":[1]},"state":"new","paid":true}`,
		`ann Your order {"id":1,"price":1,"tags":["a","b c"],"extra":{"k":[1]},"state":"sent","paid":true}`,
	)
	w.sql(`BEGIN; INSERT INTO gate VALUES ('a', 'open', ''), ('b', 'open', ''); UPDATE gate SET state = 'shut' WHERE name = 'a'; COMMIT`)
	w.object("a", `{"state":"shut"}`)
	w.object("b", `{"state":"open"}`)
	w.sql(`UPDATE gate SET name = 'c' WHERE name = 'b'`, `DELETE FROM gate WHERE name = 'a'`)
	w.object("a", "")
	w.object("b", "")
	w.object("c", `{"state":"open"}`)
	w.sql(`INSERT INTO gate VALUES ('a', 'anew', '')`)
	w.object("a", `{"state":"anew"}`)
	w.sql(`TRUNCATE gate`)
	w.object("a", "")
	w.object("c", "")
	w.sql(`INSERT INTO gate VALUES ('c', 'again', '')`)
	w.object("c", `{"state":"again"}`)
	if q := w.quarantined(); len(q) != 1 || !strings.HasPrefix(q[0], "the column customer of public.orders is null") || !strings.Contains(q[0], `{"id":3,"customer":null`) {
		t.Errorf("in quarantine are %q", q)
	}
}

func TestLargeValuesThatWereLeftUnchangedAreNotLostInSilence(t *testing.T) {
	t.Parallel()
	w := newTables(t)
	large := "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 100) i)"
	w.sql(`ALTER TABLE gate ALTER state SET STORAGE EXTERNAL`, `INSERT INTO gate VALUES ('a', `+large+`, '')`)
	w.object("a", w.text(`SELECT '{"state":"' || state || '"}' FROM gate WHERE name = 'a'`))
	w.sql(`UPDATE gate SET notes = 'x' WHERE name = 'a'`)
	if !eventually.Holds(func() bool { return len(w.quarantined()) == 1 }) || !strings.Contains(w.quarantined()[0], "ALTER TABLE public.gate REPLICA IDENTITY FULL") {
		t.Fatalf("in quarantine are %q", w.quarantined())
	}
	w.sql(`ALTER TABLE gate REPLICA IDENTITY FULL`, `UPDATE gate SET notes = 'y' WHERE name = 'a'`, `INSERT INTO gate VALUES ('b', 'after', '')`)
	w.object("b", `{"state":"after"}`)
	if q := w.quarantined(); len(q) != 1 {
		t.Errorf("in quarantine are %q", q)
	}
}

func TestATableIsAlteredWhileItIsRead(t *testing.T) {
	t.Parallel()
	w := newTables(t)
	w.sql(`ALTER TABLE gate ADD more int DEFAULT 1`, `INSERT INTO gate VALUES ('a', 'open', '')`)
	w.object("a", `{"state":"open"}`)
	w.sql(`ALTER TABLE gate RENAME state TO condition`, `INSERT INTO gate VALUES ('b', 'open', '')`)
	w.Becomes(source.Running, "the table public.gate has no column state")
	if !eventually.Holds(func() bool { return len(w.quarantined()) == 1 }) || !strings.Contains(w.quarantined()[0], `"name":"b","condition":"open"`) {
		t.Errorf("in quarantine are %q", w.quarantined())
	}
	w.sql(`ALTER TABLE gate RENAME condition TO state`, `INSERT INTO gate VALUES ('c', 'open', '')`)
	w.object("c", `{"state":"open"}`)
}

func TestWhatIsThereBeforeIsCopiedAndGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sql(schema, `INSERT INTO gate SELECT 'g' || i, i, '' FROM generate_series(1, 1200) i`, `CREATE TABLE empty (name text PRIMARY KEY)`)
	empty := map[string]any{"table": "empty", "group": "gates", "object": "name"}
	w.set(postgres.FieldTables, []any{orders, empty, gates}, postgres.FieldSnapshot, true)
	w.object("g1", `{"state":"1"}`)
	w.Stop() // somewhere in the copy, or behind it
	w.sql(`UPDATE gate SET state = 'later' WHERE name IN ('g1', 'g1200')`)
	w.Run()
	w.object("g1", `{"state":"later"}`)
	w.object("g1200", `{"state":"later"}`)
	for i := 2; i < 1200; i++ {
		w.object(fmt.Sprintf("g%d", i), fmt.Sprintf(`{"state":"%d"}`, i))
	}
}

func TestALostSlotIsSaidAndAResyncReadsTheTables(t *testing.T) {
	t.Parallel()
	w := newTables(t)
	w.sql(`INSERT INTO gate VALUES ('a', 'open', ''), ('b', 'open', '')`)
	w.object("b", `{"state":"open"}`)
	w.Stop()
	w.drops("godwit_shop")
	w.sql(`DELETE FROM gate WHERE name = 'a'`, `UPDATE gate SET state = 'shut'`)
	w.Run()
	w.Becomes(source.Failing, "the replication slot godwit_shop is gone: what was committed after ")
	w.object("a", `{"state":"open"}`)
	if _, _, err := w.Service.Set(t.Context(), "shop", postgres.Name, source.Change{Resync: true, Private: true}); err != nil {
		t.Fatal(err)
	}
	w.Becomes(source.Running, "")
	w.object("a", "")
	w.object("b", `{"state":"shut"}`)
	w.object("old", `{"state":"shut"}`)
	w.sql(`INSERT INTO gate VALUES ('c', 'open', '')`)
	w.object("c", `{"state":"open"}`)
	left, err := w.Service.Delete(t.Context(), "shop", postgres.Name, setting.Match{})
	if err != nil || left != "" || w.text("SELECT count(*)::text FROM pg_replication_slots") != "0" || w.text("SELECT count(*)::text FROM pg_publication") != "0" {
		t.Errorf("after the source was deleted: left %q, %v", left, err)
	}
}

func TestASlotWhoseLogGrewTooMuchIsSaid(t *testing.T) {
	t.Parallel()
	w := newTables(t)
	w.Stop()
	w.sql(`ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'`, `SELECT pg_reload_conf()`)
	for range 3 {
		w.sql(`SELECT pg_switch_wal()`, `CREATE TABLE junk AS SELECT md5(i::text) FROM generate_series(1, 1000) i`, `DROP TABLE junk`)
	}
	w.sql("CHECKPOINT")
	if status := w.text(`SELECT wal_status FROM pg_replication_slots`); status != "lost" {
		t.Fatalf("the slot is %s", status)
	}
	w.Run()
	w.Becomes(source.Failing, "the replication slot godwit_shop is lost")
}

func TestADroppedPublicationIsSaid(t *testing.T) {
	t.Parallel()
	w := newTables(t)
	w.sql(`DROP PUBLICATION godwit_shop`)
	w.Becomes(source.Failing, "the publication godwit_shop is gone")
}

func TestAServerThatTakesOverWithoutTheLastCommitsMakesObjectsUnknown(t *testing.T) {
	t.Parallel()
	w := newTables(t)
	w.sql(`INSERT INTO gate VALUES ('a', 'open', '')`)
	w.object("a", `{"state":"open"}`)
	behind := w.pg.Replica(t)
	w.sql(`UPDATE gate SET state = 'read before the failover'`)
	w.object("a", `{"state":"read before the failover"}`)
	w.Stop()
	w.pg.Kill()
	w.pg = behind
	w.Run()
	w.set(postgres.FieldTables, []any{orders, gates})
	w.Becomes(source.Running, "objects are unknown until they change") // the replica has the slot, as PostgreSQL 17 keeps it there
	w.object("old", "")

	w.Stop()
	w.drops("godwit_shop") // as before PostgreSQL 17
	w.Run()
	w.Becomes(source.Failing, "godwit source resync")
	if _, _, err := w.Service.Set(t.Context(), "shop", postgres.Name, source.Change{Resync: true, Private: true}); err != nil {
		t.Fatal(err)
	}
	w.Becomes(source.Running, "")
	w.object("old", `{"state":"shut"}`)
}

func TestTwoSourcesDoNotShareASlot(t *testing.T) {
	t.Parallel()
	w := newTables(t)
	other := &world{sourcetest.NewWorld(t, postgres.Name, postgres.Kind{}), w.pg}
	other.Records = w.Records
	other.Run()
	other.set()
	other.Becomes(source.Failing, "is in use")
	w.sql(emits(`{"to":"ann","title":"one"}`))
	w.gets("ann one ")
	w.Stop()
	other.Becomes(source.Running, "")
}

func TestBadSettingsNameTheirField(t *testing.T) {
	t.Parallel()
	w := worldOn(t, nil)
	const at = "postgres://u@h/d"
	for _, c := range []struct {
		name   string
		values map[string]any
	}{
		{"url", map[string]any{}},
		{"url", map[string]any{"url": "http://u@h/d"}},
		{"url", map[string]any{"url": "postgres://h/d"}},
		{"url", map[string]any{"url": "postgres://u@h"}},
		{"url", map[string]any{"url": at + "?sslrootcert=/etc/passwd"}},
		{"url", map[string]any{"url": at + "?host=evil"}},
		{"url", map[string]any{"url": at + "?sslmode=maybe"}},
		{"slot", map[string]any{"url": at, "slot": "a-b"}},
		{"ca", map[string]any{"url": at, "ca": "x"}},
		{"tables", map[string]any{"url": at, "tables": 7}},
		{"tables[0]", map[string]any{"url": at, "tables": []any{map[string]any{"table": "t"}}}},
		{"tables", map[string]any{"url": at, "tables": []any{map[string]any{"table": "t", "recipients": "x"}}}},
		{"tables[1]", map[string]any{"url": at, "tables": []any{gates, gates}}},
		{"tables[0]", map[string]any{"url": at, "tables": []any{map[string]any{"table": "t", "object": "x"}}}},
	} {
		if err := w.refused(c.values); err == nil || !strings.HasPrefix(err.Error(), c.name+":") {
			t.Errorf("%v: %v, want %s", c.values, err, c.name)
		}
	}
	if err := w.refused(map[string]any{"url": "postgres://u:sekret@h:5433/d?sslmode=require"}); err != nil {
		t.Fatal(err)
	}
	i := w.Info()
	if got := i.Values.Text("url"); got != "postgres://u@h:5433/d?sslmode=require" || i.Values.Text("password") != "sekret" || !slices.Equal(i.Credentials, []string{"password"}) {
		t.Errorf("the URL is %s, credentials %v", got, i.Credentials)
	}
}
