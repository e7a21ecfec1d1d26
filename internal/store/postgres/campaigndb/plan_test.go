package campaigndb

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/segment"
)

// someEndpoints inserts enough rows for the planner to prefer an index.
const someEndpoints = `
INSERT INTO endpoint(app, id, channel, recipient, address, address_key, tags, attributes, locale, timezone, active, disabled_reason, created_at, updated_at, last_seen_at)
SELECT 'shop', decode(md5('id' || n), 'hex'), 'webpush', 'r' || n, repeat('a', 200), decode(md5('address' || n), 'hex'), '["news"]', '{}', '', '', n % 10 <> 0, '', n, n, 0
	FROM generate_series(1, 20000) n;
INSERT INTO tag_name(app, name) VALUES ('shop', 'news');
INSERT INTO attribute_name(app, name) VALUES ('shop', 'age'), ('shop', 'city');
INSERT INTO endpoint_tag SELECT t.id, e.number FROM endpoint e CROSS JOIN tag_name t WHERE e.active;
INSERT INTO attribute_number SELECT e.number, a.id, e.number % 80 FROM endpoint e JOIN attribute_name a ON a.name = 'age' WHERE e.active;
INSERT INTO attribute_text SELECT e.number, a.id, 'Oslo' FROM endpoint e JOIN attribute_name a ON a.name = 'city' WHERE e.active;
INSERT INTO delivery SELECT 1, number, id, 1, 2, 0, 1, 0, 0, 0, 0, '', '' FROM endpoint`

// TestNoSearchReadsAllEndpoints checks the plans of searches, in the store's own sessions: reading a million endpoints would take seconds.
func TestNoSearchReadsAllEndpoints(t *testing.T) {
	s := openAt(t, config(t, nil))
	conn, err := s.db.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Conn().PgConn().Exec(t.Context(), someEndpoints).ReadAll()
	if err == nil {
		_, err = conn.Exec(t.Context(), "VACUUM ANALYZE endpoint, endpoint_tag, attribute_number, attribute_text, delivery")
	}
	if conn.Release(); err != nil {
		t.Fatal(err)
	}
	asked := &asking{s: s, t: t}
	want := func(name, plan, index string) {
		t.Helper()
		if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Bitmap") || strings.Contains(plan, "Hash Join") || strings.Contains(plan, "Merge Join") || !strings.Contains(plan, index) {
			t.Errorf("%s: %s; want %s", name, plan, index)
		}
	}
	for where, index := range map[string]string{
		``: "endpoint_active", `channel = "webpush"`: "endpoint_active", `tags contains "news"`: "endpoint_tag_pkey", `city = "Oslo"`: "attribute_text_value",
		`city contains "slo"`: "SubPlan", `city in ("Oslo", "Bergen") or age > 18`: "SubPlan", `not (city = "Oslo")`: "SubPlan", `tags contains "news" and age > 18`: "endpoint_tag_pkey",
	} {
		sel, err := (&audience.Audience{Where: where}).Select("")
		if err != nil {
			t.Fatal(err)
		}
		asked.plans = nil
		if _, _, _, err := segment.List(asked, dialect, "shop", sel, 7, 50); err != nil {
			t.Fatal(err)
		}
		all := map[push.Channel]int64{push.Telegram: 1, push.WebPush: 1}
		if _, err := segment.CountPart(asked, dialect, "shop", sel, all, 7); err != nil || len(asked.plans) < 2 {
			t.Fatalf("%s: %d queries, %v", where, len(asked.plans), err)
		}
		for i, plan := range asked.plans {
			if i%2 == 0 && index == "SubPlan" { // this is only the extent of the step, without a query for each row
				want(where, plan, "endpoint_active")
				continue
			}
			want(where, plan, index)
		}
	}
	for _, status := range []audience.Status{"", audience.Active, audience.Disabled} {
		query, ok := dialect.Named("shop", status, &audience.Selection{Channels: []push.Channel{push.WebPush}}, 7, 50)
		if want("one channel", asked.explain(numbered(query.SQL), query.Args...), "endpoint_channel"); !ok {
			t.Error("a channel does not name endpoints")
		}
		want("any", asked.explain("SELECT "+endpointrow.Columns+" FROM endpoint e WHERE "+afterCondition(status), "shop", 7, 50), "endpoint_active")
	}
	asked.plans = nil
	if _, _, _, err := segment.List(asked, dialect, "shop", &audience.Selection{Channels: []push.Channel{push.WebPush}}, 7, 50); err != nil || len(asked.plans) != 2 {
		t.Fatalf("%d queries, %v", len(asked.plans), err)
	}
	want("how far a step along a channel goes", asked.plans[0], "endpoint_channel")
	want("a step along a channel", asked.plans[1], "Index Cond") // between two numbers any index will do
	for name, index := range map[string]string{"": "delivery_pkey", campaignrow.Ended(campaign.Expired): "delivery_ended"} {
		want("deliveries "+name, asked.explain(reportQuery(name), 1, 7, 50), index)
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
	a.plans = append(a.plans, a.explain(numbered(query.SQL), query.Args...))
	return 0, false, nil
}

func (a *asking) Endpoints(query segment.Clause) ([]audience.Endpoint, error) {
	a.plans = append(a.plans, a.explain(numbered(query.SQL), query.Args...))
	return nil, nil
}

func (a *asking) explain(query string, args ...any) (plan string) {
	a.t.Helper()
	err := a.s.db.Read(a.t.Context(), "explain", func(ctx context.Context, tx pgx.Tx) error {
		return pgdb.Each(ctx, tx, "EXPLAIN "+query, args, func(rows pgx.Rows) error {
			var line string
			err := rows.Scan(&line)
			plan += line + "\n"
			return err
		})
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return plan
}
