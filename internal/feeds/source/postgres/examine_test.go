package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/postgres"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// examined returns what an examination with these fields finds, one a line.
func (w *world) examined(fields ...any) string {
	w.Helper()
	v := setting.Values{postgres.FieldURL: setting.JSON(w.pg.URL())}
	for i := 0; i < len(fields); i += 2 {
		v[fields[i].(string)] = setting.JSON(fields[i+1])
	}
	b := &strings.Builder{}
	for _, c := range source.Examine(w.Context(), postgres.Kind{}, &source.Source{App: "shop", Name: "pg", Kind: postgres.Name, Values: v, Private: true}, urlguard.Targets{}) {
		fmt.Fprintln(b, c.OK, c.Detail, "|", c.Hint)
	}
	return b.String()
}

// finds waits until an examination has a line with all texts.
func (w *world) finds(texts []string, fields ...any) {
	w.Helper()
	found := ""
	if !eventually.Holds(func() bool {
		found = w.examined(fields...)
		for line := range strings.Lines(found) {
			has := true
			for _, text := range texts {
				has = has && strings.Contains(line, text)
			}
			if has {
				return true
			}
		}
		return false
	}) {
		w.Errorf("no line with %q in\n%s", texts, found)
	}
}

func TestAnExaminationFindsWhatKeepsASourceFromItsLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tables := func(list ...postgres.Table) []any { return []any{postgres.FieldTables, list} }
	gates, news := postgres.Table{Table: "gates", Group: "gates", Object: "id"}, postgres.Table{Table: "news", Recipient: "who"}
	w.sql("CREATE TABLE gates (id text PRIMARY KEY, n int)", "CREATE TABLE news (who text)", "CREATE ROLE plain LOGIN")
	w.set(tables(gates)...)
	w.Becomes(source.Running, "")
	w.finds([]string{"true the replication slot godwit_shop is read"}, tables(gates)...)
	if all := w.examined(tables(gates)...); strings.Contains(all, "false") || strings.Count(all, "\n") != 7 {
		t.Errorf("a source that works is examined as\n%s", all)
	}
	w.finds([]string{"false the publication godwit_shop does not have the table public.news", "ALTER PUBLICATION"}, tables(gates, news)...)
	w.finds([]string{"false the table public.news has no replica identity", "REPLICA IDENTITY FULL"}, tables(gates, news)...)
	w.finds([]string{"false the table public.gone does not exist"}, tables(postgres.Table{Table: "gone", Recipient: "who"})...)
	w.finds([]string{"false the table public.gates does not have the columns title, x"}, tables(postgres.Table{Table: "gates", Recipient: "id", Data: []string{"title", "x"}})...)
	w.finds([]string{"false of deleted rows of public.gates PostgreSQL does not tell n"}, tables(postgres.Table{Table: "gates", Group: "g", Object: "n"})...)
	w.finds([]string{"false the publication nobodys does not exist", "CREATE PUBLICATION"}, postgres.FieldPublication, "nobodys")
	w.finds([]string{"false its user cannot read the log", "ALTER ROLE"}, postgres.FieldURL, strings.Replace(w.pg.URL(), "user=postgres", "user=plain", 1))

	w.finds([]string{"true PostgreSQL can free its log after each 4 MB", "| \n"}, tables(gates)...)
	w.sql("ALTER ROLE plain REPLICATION")
	plain := []any{postgres.FieldURL, strings.Replace(w.pg.URL(), "user=postgres", "user=plain", 1)}
	hint := "a superuser could"
	switch version := w.version(); {
	case version >= 16:
		hint = "GRANT EXECUTE ON FUNCTION pg_log_standby_snapshot()"
	case version == 15:
		hint = "GRANT SET ON PARAMETER log_min_messages"
	}
	w.finds([]string{"true PostgreSQL can free its log after each 64 MB", hint}, plain...)
	if grants, _, _ := strings.Cut(hint, " "); grants == "GRANT" {
		w.sql(hint + " TO plain")
		w.finds([]string{"true PostgreSQL can free its log after each 4 MB", "| \n"}, plain...)
	}

	w.sql("SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')")
	w.finds([]string{"false", "theirs is of the plug-in test_decoding"}, postgres.FieldSlot, "theirs")
	w.Stop()
	w.finds([]string{"false the replication slot godwit_shop is inactive and keeps", "remove the source"})
	w.sql("SELECT pg_drop_replication_slot('theirs')", "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
	for range 3 { // the log ends a segment, and the checkpoint removes those that the slot may not keep
		w.sql("SELECT pg_logical_emit_message(false, 'x', 'x')", "SELECT pg_switch_wal()", "CHECKPOINT")
	}
	w.finds([]string{"false the replication slot godwit_shop is lost (wal_status)", "godwit source resync pg"})
	w.sql("SELECT pg_drop_replication_slot('godwit_shop')", "ALTER SYSTEM SET max_slot_wal_keep_size = -1", "ALTER SYSTEM SET wal_level = replica")
	w.pg.Restart(t)
	w.finds([]string{"false the replication slot godwit_shop does not exist"})
	w.finds([]string{"true max_slot_wal_keep_size is unlimited", "fills the disk"})
	w.finds([]string{"false wal_level is replica", "wal_level = logical"})
	w.pg.Kill()
	w.finds([]string{"false cannot connect"})
}
