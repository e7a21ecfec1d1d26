package campaigndb

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/segment"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/storetest"
)

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "campaign.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// reopening returns a function that opens a store; each further call closes and reopens it.
func reopening(t *testing.T, now func() time.Time) (reopen func() *Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "campaign.db")
	var s *Store
	t.Cleanup(func() { _ = s.Close() })
	return func() *Store {
		var err error
		if s != nil {
			err = s.Close()
		}
		if err == nil {
			s, err = Open(context.Background(), path, Config{Now: now})
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func TestEndpoints(t *testing.T) {
	storetest.RunEndpoints(t, func(t *testing.T, now func() time.Time) (storetest.EndpointStore, func() storetest.EndpointStore) {
		reopen := reopening(t, now)
		return reopen(), func() storetest.EndpointStore { return reopen() }
	})
}

// registration returns a registration of Telegram chat n.
func registration(t *testing.T, n int, change ...func(*audience.Endpoint)) audience.Registration {
	t.Helper()
	r := audience.Registration{Trusted: true, Endpoint: audience.Endpoint{
		Channel: push.Telegram, Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, n)),
	}}
	for _, f := range change {
		f(&r.Endpoint)
	}
	if err := r.Endpoint.Check(); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPagesWalkAlongAnIndex checks the query plans of audiences: each page must begin where the last one ended, without
// reading earlier rows and without sorting.
func TestPagesWalkAlongAnIndex(t *testing.T) {
	s := open(t)
	if _, err := s.Register(t.Context(), "shop", []audience.Registration{registration(t, 1)}); err != nil {
		t.Fatal(err)
	}
	for where, index := range map[string]string{
		``:                         `e USING INDEX endpoint_active (app=? AND active=? AND number>? AND number<?)`,
		`age >= 18`:                `e USING INDEX endpoint_active (app=? AND active=? AND number>? AND number<?)`,
		`city = "Oslo"`:            `d USING COVERING INDEX attribute_text_value (name=? AND value=? AND endpoint>? AND endpoint<?)`,
		`vip = true and age >= 18`: `d USING COVERING INDEX attribute_number_value (name=? AND value=? AND endpoint>? AND endpoint<?)`,
		`tags contains "news"`:     `d USING PRIMARY KEY (tag=? AND endpoint>? AND endpoint<?)`,
	} {
		plan := explain(t, s, where)
		if !strings.Contains(plan, index) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s: %s", where, plan)
		}
	}
}

// pages is a reader that records the query of a page instead of running it.
type pages struct {
	segment.Reader
	query segment.Clause
}

func (p *pages) Endpoints(query segment.Clause) ([]audience.Endpoint, error) {
	p.query = query
	return nil, nil
}

// explain returns the query plan of an audience's first page.
func explain(t *testing.T, s *Store, where string) string {
	t.Helper()
	sel, err := (&audience.Audience{Where: where}).Select("")
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	err = s.db.Read(t.Context(), func(c *sqlite.Conn) error {
		r := pages{Reader: selecting{c}}
		if _, _, _, err := segment.Select(&r, dialect, "shop", sel, 0, 10); err != nil {
			return err
		}
		return sqlitedb.EachOnce(c, "EXPLAIN QUERY PLAN "+r.query.SQL, r.query.Args, func(row *sqlite.Stmt) error {
			steps = append(steps, row.ColumnText(3))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(steps, "; ")
}
