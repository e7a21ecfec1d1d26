package campaigndb

import (
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/segment"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// TestDeliveriesAreFoundWithoutSorting checks that the queries for every few hundred messages read only these messages: sorting a million
// pending ones each time would be far too slow.
func TestDeliveriesAreFoundWithoutSorting(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "campaign.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, query := range map[string]string{
		"due": dueQuery, "next due": nextDueQuery, "last due": lastDueQuery, "recover": leftQuery, "untried": untriedQuery, "release": releaseQuery,
		"cancel": sweepQuery(campaign.Sweep{From: campaign.Pending}) + " LIMIT ?",
		"let go": sweepQuery(campaign.Sweep{From: campaign.Pending, Held: true}) + " LIMIT ?",
		"retry":  sweepQuery(campaign.Sweep{From: campaign.Unknown}) + " LIMIT ?",
	} {
		var plan []string
		err := s.db.Read(t.Context(), func(c *sqlite.Conn) error {
			return sqlitedb.EachOnce(c, "EXPLAIN QUERY PLAN "+strings.ReplaceAll(query, "?", "1"), nil, func(row *sqlite.Stmt) error {
				plan = append(plan, row.ColumnText(3))
				return nil
			})
		})
		text := strings.Join(plan, "; ")
		if err != nil || strings.Contains(text, "TEMP B-TREE") || !strings.Contains(text, "INDEX delivery_") {
			t.Errorf("%s: %s (%v)", name, text, err)
		}
		if bound := map[string]string{"let go": "due=?", "release": "due>?", "untried": "due<?"}[name]; !strings.Contains(text, bound) {
			t.Errorf("%s: %s: looks at everything that is pending", name, text)
		}
	}
}

// TestNamedEndpointsAreFoundByAnIndex: the lookup of one person, or of one endpoint, must not read a million others.
func TestNamedEndpointsAreFoundByAnIndex(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "campaign.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, status := range []audience.Status{"", audience.Active, audience.Disabled} {
		for index, who := range map[string]audience.Selection{
			"endpoint_recipient": {Recipients: []string{"ada", "bob"}}, "endpoint_id": {Endpoints: []audience.ID{audience.NewUUID(), audience.NewUUID()}},
		} {
			query, ok := dialect.Named("shop", status, &who, 0, 500)
			if plan := s.explain(t, query); !ok || !strings.Contains(plan, "USING INDEX "+index+" ") {
				t.Errorf("%q by %s: %s", status, index, plan)
			}
			asked := &asking{s: s, t: t}
			if _, _, _, err := segment.Select(asked, dialect, "shop", &who, 0, 50); err != nil || len(asked.plans) != 2 {
				t.Fatalf("%d queries, %v", len(asked.plans), err)
			}
			for _, plan := range asked.plans {
				if !strings.Contains(plan, "INDEX "+index+" ") {
					t.Errorf("a page by %s: %s", index, plan)
				}
			}
		}
	}
}

// looks are searches among many endpoints, with the index that their plans must use: none may scan or sort a whole table.
var looks = map[string]struct{ who, index string }{
	"all":                 {``, "endpoint_active"},
	"a channel":           {`channel = "telegram"`, "endpoint_"},
	"a tag":               {`tags contains "news"`, "SEARCH d USING PRIMARY KEY"},
	"an attribute":        {`city = "Oslo"`, "attribute_text_value"},
	"part of one":         {`city contains "slo"`, "endpoint_active"},
	"one of several":      {`city in ("Oslo", "Bergen") or age > 18`, "endpoint_active"},
	"none of several":     {`not (city = "Oslo")`, "endpoint_active"},
	"a tag and attribute": {`tags contains "news" and age > 18`, "SEARCH d USING PRIMARY KEY"},
}

// TestNoSearchReadsAllEndpoints: reading all of a million endpoints would take seconds.
func TestNoSearchReadsAllEndpoints(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "campaign.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := func(name, plan, index string) {
		t.Helper()
		if strings.Contains(plan, "SCAN e") || strings.Contains(plan, "SCAN d") || strings.Contains(plan, "TEMP B-TREE FOR ORDER BY") || !strings.Contains(plan, index) {
			t.Errorf("%s: %s; want %s", name, plan, index)
		}
	}
	for name, look := range looks {
		sel, err := (&audience.Audience{Where: look.who}).Select("")
		if err != nil {
			t.Fatal(err)
		}
		asked := &asking{s: s, t: t}
		if _, _, _, err := segment.List(asked, dialect, "shop", sel, 7, 50); err != nil {
			t.Fatal(err)
		}
		all := map[push.Channel]int64{push.Telegram: 1, push.WebPush: 1}
		if _, err := segment.CountPart(asked, dialect, "shop", sel, all, 7); err != nil || len(asked.plans) < 2 && look.who != "" {
			t.Fatalf("%s: %d queries, %v", name, len(asked.plans), err)
		}
		for _, plan := range asked.plans {
			want(name, plan, look.index)
		}
	}
	for _, status := range []audience.Status{"", audience.Active, audience.Disabled} {
		query, ok := dialect.Named("shop", status, &audience.Selection{Channels: []push.Channel{push.Telegram}}, 7, 50)
		if want("one channel", s.explain(t, query), "COVERING INDEX endpoint_channel (app=? AND channel=? AND active=? AND number>?)"); !ok {
			t.Error("a channel does not name endpoints")
		}
		want("any", s.explain(t, afterQuery("shop", status, 7, 50)), "COVERING INDEX endpoint_active (app=? AND active=? AND number>?)")
	}
	asked := &asking{s: s, t: t}
	if _, _, _, err := segment.List(asked, dialect, "shop", &audience.Selection{Channels: []push.Channel{push.Telegram}}, 7, 50); err != nil || len(asked.plans) != 2 {
		t.Fatalf("%d queries, %v", len(asked.plans), err)
	}
	for _, plan := range asked.plans {
		want("active ones of a channel", plan, "INDEX endpoint_channel (app=? AND channel=? AND active=? AND number>?")
	}
	for name, index := range map[string]string{"": "SEARCH d USING PRIMARY KEY (campaign=? AND endpoint>?)", campaignrow.Ended(campaign.Expired): "delivery_ended (campaign=? AND outcome=? AND endpoint>?)"} {
		want("deliveries "+name, s.explain(t, segment.That(reportQuery(name), 1, 7, 50)), index)
	}
}

// asking is a segment.Reader that returns nothing and records the plan of each query.
type asking struct {
	selecting
	s     *Store
	t     *testing.T
	plans []string
}

func (a *asking) Number(query segment.Clause) (n int64, found bool, err error) {
	a.plans = append(a.plans, a.s.explain(a.t, query))
	return 0, false, nil
}

func (a *asking) Endpoints(query segment.Clause) ([]audience.Endpoint, error) {
	a.plans = append(a.plans, a.s.explain(a.t, query))
	return nil, nil
}

func (s *Store) explain(t *testing.T, query segment.Clause) string {
	t.Helper()
	var plan []string
	err := s.db.Read(t.Context(), func(c *sqlite.Conn) error {
		return sqlitedb.EachOnce(c, "EXPLAIN QUERY PLAN "+query.SQL, query.Args, func(row *sqlite.Stmt) error {
			plan = append(plan, row.ColumnText(3))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "; ")
}
