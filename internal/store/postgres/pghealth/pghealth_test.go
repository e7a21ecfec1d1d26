package pghealth_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/store/postgres/pghealth"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t testing.TB, address string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	ok(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func exec(t testing.TB, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		_, err := c.Exec(t.Context(), s)
		ok(t, err)
	}
}

func open(t testing.TB, address string) *pghealth.Health {
	t.Helper()
	h, err := pghealth.Open(t.Context(), pghealth.Config{URL: address})
	ok(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

func look(t testing.TB, h *pghealth.Health) pghealth.Figures {
	t.Helper()
	f, err := h.Look(t.Context())
	ok(t, err)
	return f
}

// holder returns the holder with this kind and name, or nil.
func holder(t testing.TB, h *pghealth.Health, kind, name string) *pghealth.Holder {
	t.Helper()
	for _, o := range look(t, h).Holders {
		if o.Kind == kind && o.Name == name {
			return &o
		}
	}
	return nil
}

// able starts a server whose settings allow all kinds of holders of the horizon.
func able(t testing.TB) *pgtest.Server {
	t.Helper()
	return pgtest.Start(t, pgtest.Options{Settings: map[string]string{"wal_level": "logical", "max_prepared_transactions": "4"}})
}

// found returns the finding of a check; of several, one that is not OK.
func found(t testing.TB, address, check string) (f pghealth.Finding) {
	t.Helper()
	for _, one := range pghealth.Diagnose(t.Context(), address) {
		if one.Check == check && (f.Check == "" || f.OK) {
			f = one
		}
	}
	return f
}

func contains(t testing.TB, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q does not say %q", text, w)
		}
	}
}

func TestASessionInATransactionHoldsTheHorizon(t *testing.T) {
	s := able(t)
	h, c := open(t, s.URL()), connect(t, s.URL()+"&application_name=reports")
	pid := fmt.Sprint(c.PgConn().PID())
	if o := holder(t, h, pghealth.Backend, pid); o != nil {
		t.Errorf("a session that does nothing holds it: %+v", o)
	}
	exec(t, c, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
	o := holder(t, h, pghealth.Backend, pid)
	if o == nil || !o.Known || o.Since <= 0 {
		t.Fatalf("the session is not named: %+v", o)
	}
	contains(t, o.About, "reports", "user postgres", "idle in transaction")
	exec(t, connect(t, s.URL()), "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", "DELETE FROM t")
	if o = holder(t, h, pghealth.Backend, pid); o.Behind < 3 {
		t.Errorf("it is %d transactions back after three", o.Behind)
	}
	if m := metrics(t, h)["godwit_postgres_horizon_transactions"]; m["backend"] < 3 || len(m) != 4 {
		t.Errorf("metrics have %v", m)
	}
	exec(t, c, "COMMIT")
	if o := holder(t, h, pghealth.Backend, pid); o != nil {
		t.Errorf("it still holds after its end: %+v", o)
	}
}

func TestASessionOfAnotherDatabaseDoesNotHold(t *testing.T) {
	s := able(t)
	h, c := open(t, s.URL()), connect(t, s.Database(t))
	exec(t, c, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
	if f := look(t, h); len(f.Holders) > 0 {
		t.Errorf("%+v", f.Holders)
	}
}

func TestAPreparedTransactionHoldsTheHorizon(t *testing.T) {
	s := able(t)
	h, c := open(t, s.URL()), connect(t, s.URL())
	exec(t, c, "CREATE TABLE t (a int)", "BEGIN", "INSERT INTO t VALUES (1)", "PREPARE TRANSACTION 'left over'")
	t.Cleanup(func() { _, _ = c.Exec(context.Background(), "ROLLBACK PREPARED 'left over'") })
	o := holder(t, h, pghealth.Prepared, "left over")
	if o == nil || o.Since <= 0 {
		t.Fatalf("it is not named: %+v", o)
	}
	o.Since = time.Hour
	contains(t, o.String(), "prepared transaction left over", "1h0m0s")
}

func TestUnusedReplicationSlotIsNamed(t *testing.T) {
	s := able(t)
	c := connect(t, s.URL())
	if f := found(t, s.URL(), "horizon"); !f.OK {
		t.Fatalf("%+v", f)
	}
	exec(t, c, "SELECT pg_create_logical_replication_slot('forgotten', 'pgoutput')")
	f := found(t, s.URL(), "horizon")
	if f.OK {
		t.Fatal("it is not found")
	}
	contains(t, f.Detail, "replication slot forgotten", "nobody uses it", "system tables")
	contains(t, f.Hint, "pg_drop_replication_slot('forgotten')")
	exec(t, c, "SELECT pg_drop_replication_slot('forgotten')")
	if f := found(t, s.URL(), "horizon"); !f.OK {
		t.Errorf("%+v", f)
	}
}

// replica connects as a standby that reports the oldest transaction of its queries. With a slot, the server keeps that transaction when the
// standby disconnects.
func replica(t testing.TB, s *pgtest.Server, slot string) *pgconn.PgConn {
	t.Helper()
	cfg, err := pgconn.ParseConfig(s.URL())
	ok(t, err)
	cfg.RuntimeParams["replication"] = "true"
	cfg.RuntimeParams["application_name"] = "standby"
	c, err := pgconn.ConnectConfig(t.Context(), cfg)
	ok(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	start := "START_REPLICATION PHYSICAL "
	if slot != "" {
		_, err := c.Exec(t.Context(), "CREATE_REPLICATION_SLOT "+slot+" PHYSICAL RESERVE_WAL").ReadAll()
		ok(t, err)
		start = "START_REPLICATION SLOT " + slot + " PHYSICAL "
	}
	var lsn string
	db := connect(t, s.URL())
	ok(t, db.QueryRow(t.Context(), "SELECT pg_current_wal_lsn()::text").Scan(&lsn))
	var xmin uint32
	ok(t, db.QueryRow(t.Context(), "SELECT (pg_current_xact_id()::text::bigint % 4294967296)").Scan(&xmin))
	front := c.Frontend()
	front.SendQuery(&pgproto3.Query{String: start + lsn})
	ok(t, front.Flush())
	for {
		m, err := front.Receive()
		ok(t, err)
		if e, bad := m.(*pgproto3.ErrorResponse); bad {
			t.Fatal(e.Message)
		}
		if _, begun := m.(*pgproto3.CopyBothResponse); begun {
			break
		}
	}
	// Hot standby feedback: time, xmin and its epoch, catalog xmin and its epoch.
	b := append([]byte{'h'}, make([]byte, 24)...)
	binary.BigEndian.PutUint32(b[9:], xmin)
	front.Send(&pgproto3.CopyData{Data: b})
	ok(t, front.Flush())
	return c
}

func TestAReplicaHoldsTheHorizonAndItsSlotGoesOn(t *testing.T) {
	s := able(t)
	h := open(t, s.URL())
	free := replica(t, s, "")
	pid := fmt.Sprint(free.PID())
	eventually.True(t, "the replica is named", func() bool { return holder(t, h, pghealth.Replica, pid) != nil })
	contains(t, holder(t, h, pghealth.Replica, pid).About, "standby")

	slotted := replica(t, s, "spare")
	eventually.True(t, "the slot is named", func() bool { return holder(t, h, pghealth.Slot, "spare") != nil })
	if o := holder(t, h, pghealth.Slot, "spare"); !o.Active || o.Catalog {
		t.Errorf("%+v", o)
	}
	slotted.Close(t.Context())
	eventually.True(t, "the slot is free", func() bool { return !holder(t, h, pghealth.Slot, "spare").Active })
	f := found(t, s.URL(), "horizon")
	contains(t, f.Detail, "replication slot spare (physical, nobody uses it) keeps dead rows from being removed")
}

func TestSettingsThatLoseOrGrowAreFound(t *testing.T) {
	s := able(t)
	if f := found(t, s.URL(), "commits"); f.OK || !strings.Contains(f.Detail, "fsync") {
		t.Errorf("a server without fsync is %+v", f) // as tests have it
	}
	safe := pgtest.Start(t, pgtest.Options{Fsync: true})
	c := connect(t, safe.URL())
	for _, check := range []string{"PostgreSQL", "commits", "vacuum", "horizon"} {
		if f := found(t, safe.URL(), check); !f.OK {
			t.Errorf("%+v", f)
		}
	}
	exec(t, c, "ALTER ROLE postgres SET synchronous_commit = off")
	if f := found(t, safe.URL(), "commits"); f.OK || !strings.Contains(f.Detail, "synchronous_commit is off") {
		t.Errorf("%+v", f)
	}
	exec(t, c, "ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()")
	eventually.True(t, "autovacuum off is found", func() bool {
		f := found(t, safe.URL(), "vacuum")
		return !f.OK && strings.Contains(f.Detail, "autovacuum is off")
	})
}

func TestRowsAndLogAreCounted(t *testing.T) {
	address := pgtest.Database(t)
	h, c := open(t, address), connect(t, address)
	before := look(t, h)
	exec(t, c, "CREATE SCHEMA godwit_mailbox", "CREATE TABLE godwit_mailbox.pending (a int) WITH (autovacuum_enabled = off)",
		"INSERT INTO godwit_mailbox.pending SELECT generate_series(1, 1000)", "DELETE FROM godwit_mailbox.pending WHERE a <= 300",
		"SELECT pg_stat_force_next_flush()")
	var f pghealth.Figures
	eventually.True(t, "something is counted", func() bool {
		f = look(t, h)
		return f.Copies == 1000 && f.WALBytes > before.WALBytes
	})
	if len(f.Rows) != 1 || f.Rows[0] != (pghealth.Rows{Schema: "godwit_mailbox", Live: 700, Dead: 300}) {
		t.Errorf("%+v", f.Rows)
	}
	m := metrics(t, h)
	if m["godwit_postgres_dead_rows"]["godwit_mailbox"] != 300 || m["godwit_postgres_live_rows"]["godwit_mailbox"] != 700 ||
		m["godwit_postgres_copies_total"][""] != 1000 || m["godwit_postgres_wal_bytes_total"][""] <= 0 {
		t.Errorf("metrics have %v", m)
	}
}

// metrics returns a collector's values by the metric's name and label.
func metrics(t testing.TB, c prometheus.Collector) map[string]map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	ok(t, r.Register(c))
	families, err := r.Gather()
	ok(t, err)
	all := make(map[string]map[string]float64)
	for _, f := range families {
		all[f.GetName()] = make(map[string]float64)
		for _, m := range f.GetMetric() {
			label := ""
			if len(m.GetLabel()) > 0 {
				label = m.GetLabel()[0].GetValue()
			}
			all[f.GetName()][label] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

func TestMetricsGoOnWithoutPostgreSQL(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	h := open(t, s.URL())
	up := func() map[string]float64 { return metrics(t, h)["godwit_postgres_up"] }
	if v := up()[""]; v != 1 {
		t.Errorf("up is %v", v)
	}
	s.Kill()
	if m := metrics(t, h); len(m) != 1 || m["godwit_postgres_up"][""] != 0 {
		t.Errorf("of a server that is away metrics have %v", m)
	}
	s.Restart(t)
	eventually.True(t, "it is up after a restart", func() bool { return up()[""] == 1 })
}

func TestAPoolerInTransactionModeIsNamed(t *testing.T) {
	f := found(t, pgtest.Pooler(t, pgtest.URL(t), true), "PostgreSQL")
	if f.OK {
		t.Fatal("it is not found")
	}
	contains(t, f.Detail, "pooler")
	contains(t, f.Hint, "pool_mode=session")
}

func TestUnreachableServerIsNamedWithoutItsPassword(t *testing.T) {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("godwit", "s3cret"), Host: "127.0.0.1:1", Path: "/godwit"}
	f := found(t, u.String(), "PostgreSQL")
	if f.OK || f.Hint == "" || strings.Contains(f.Detail+f.Hint, "s3cret") {
		t.Errorf("%+v", f)
	}
}
