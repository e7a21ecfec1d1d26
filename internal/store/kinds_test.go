package store_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store"
)

// rootOf returns the number of the first page of a table or index.
func rootOf(t *testing.T, path, name string) (page int64) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = sqlitex.Execute(conn, "SELECT rootpage FROM sqlite_schema WHERE name = ?", &sqlitex.ExecOptions{Args: []any{name}, ResultFunc: func(s *sqlite.Stmt) error {
		page = s.ColumnInt64(0)
		return nil
	}})
	if err != nil || page == 0 {
		t.Fatalf("page of %s: %d, %v", name, page, err)
	}
	return page
}

// TestEndpointsAreFoundAfterARepair destroys, one at a time, the tables that serve to find endpoints.
func TestEndpointsAreFoundAfterARepair(t *testing.T) {
	for _, table := range []string{"endpoint_tag", "attribute_text", "attribute_number", "tag_name", "attribute_name", "endpoint_count"} {
		dir := made(t)
		const n = 20
		withEndpoints(t, dir, func(s endpoint.Store) {
			for i := range n {
				_, err := s.Register(t.Context(), "demo", []audience.Registration{{Endpoint: audience.Endpoint{
					ID: audience.NewUUID(), Channel: push.Telegram, Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, 1000+i)), Tags: []string{"news"},
					Attributes: audience.Attributes{"age": audience.Number(42), "city": audience.Text("Oslo"), "ok": audience.Bool(true)},
				}}})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		path := filepath.Join(dir, store.CampaignsFile)
		r := repairedWithout(t, dir, path, table)
		if !r.Lossless() {
			t.Errorf("without %s, the repair says that something is lost: %+v", table, r)
		}
		withEndpoints(t, dir, func(s endpoint.Store) {
			for _, where := range []string{`city = "Oslo"`, "age = 42", "ok = true", "age = 42 AND ok = true"} {
				expr, err := audience.Parse(where)
				if err != nil {
					t.Fatal(err)
				}
				counts, err := s.CountEndpoints(t.Context(), "demo", &audience.Selection{Where: expr})
				if err != nil || counts[push.Telegram] != n {
					t.Errorf("without %s, %s finds %v, %v: %+v", table, where, counts, err, r)
				}
			}
			for _, sel := range []*audience.Selection{{}, {TagsAny: []string{"news"}}} {
				if counts, err := s.CountEndpoints(t.Context(), "demo", sel); err != nil || counts[push.Telegram] != n {
					t.Errorf("without %s, %+v finds %v, %v", table, sel, counts, err)
				}
			}
		})
	}
}

func withEndpoints(t *testing.T, dir string, do func(endpoint.Store)) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Data: dir, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	do(s.Endpoints)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLostDeliveriesAreCounted compares the loss with the counters of campaigns, which must be right after the repair.
func TestLostDeliveriesAreCounted(t *testing.T) {
	dir := made(t)
	path := filepath.Join(dir, store.CampaignsFile)
	script(t, path, `INSERT INTO campaign VALUES (1, 'spring', 'demo', 'running', '', '{}', '[]', 0, 0, 0, 0, 1, 0, 0, '');
		INSERT INTO campaign VALUES (2, 'autumn', 'demo', 'running', '', '{}', '[]', 0, 0, 0, 0, 1, 0, 0, '');
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
		INSERT INTO delivery SELECT 1 + i % 2, i, x'00', 2, i % 3, 0, 0, 0, 0, 0, 0, '', '' FROM n;
		INSERT INTO campaign_count SELECT campaign, channel, outcome, count(*) FROM delivery GROUP BY 1, 2, 3;
		INSERT INTO campaign_count VALUES (1, 2, 21, 7);
		INSERT INTO campaign_count VALUES (2, 2, 102, 50);
		INSERT INTO campaign_count VALUES (2, 2, 221, 3);`) // of variants: accepted by A, clicked by B
	if err := os.Remove(path + "-sums"); err != nil { // the rows went past them
		t.Fatal(err)
	}
	if _, err := store.Repair(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	r := repairedWithout(t, dir, path, "delivery")
	lost := map[string]int64{}
	for _, f := range r.Files {
		for _, l := range f.Lost {
			if l.What == "deliveries of the campaign" && !l.AtMost {
				lost[l.Key] += l.Rows
			}
		}
	}
	if lost["spring"] != 300 || lost["autumn"] != 300 {
		t.Errorf("lost are %v: %+v", lost, r)
	}
	left := script(t, path, "SELECT coalesce(sum(n), 0) FROM campaign_count WHERE what % 100 < 20; SELECT n FROM campaign_count WHERE what % 100 = 21 ORDER BY what;")
	if fmt.Sprint(left) != "[0 7 3]" {
		t.Errorf("counters of deliveries and reactions are %v", left)
	}
}

// repairedWithout repairs a folder in which the first page of a table is zeroed.
func repairedWithout(t *testing.T, dir, path, table string) store.Repaired {
	t.Helper()
	page := rootOf(t, path, table)
	b, err := os.ReadFile(path)
	if err == nil {
		clear(b[(page-1)*4096 : page*4096])
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Repair(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// script runs statements on a database that no process has open, and returns the first column of their rows.
func script(t *testing.T, path, sql string) (rows []int64) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for part := range strings.SplitSeq(sql, ";") {
		err := sqlitex.ExecuteTransient(conn, part, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			rows = append(rows, s.ColumnInt64(0))
			return nil
		}})
		if err != nil && strings.TrimSpace(part) != "" {
			t.Fatalf("%s: %v", part, err)
		}
	}
	return rows
}
