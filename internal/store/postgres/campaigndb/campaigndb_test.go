package campaigndb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/segment"
	"godwit.dev/godwit/internal/store/storetest"
	"godwit.dev/godwit/internal/testkit/testclock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openAt(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func config(t testing.TB, now func() time.Time) Config {
	t.Helper()
	return Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: now, MaxConns: 4}
}

// reopening opens a store; reopen closes it and opens it again.
func reopening(t *testing.T, now func() time.Time) (s *Store, reopen func() *Store) {
	t.Helper()
	cfg := config(t, now)
	s = openAt(t, cfg)
	return s, func() *Store {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openAt(t, cfg)
		return s
	}
}

func TestEndpoints(t *testing.T) {
	storetest.RunEndpoints(t, func(t *testing.T, now func() time.Time) (storetest.EndpointStore, func() storetest.EndpointStore) {
		s, reopen := reopening(t, now)
		return s, func() storetest.EndpointStore { return reopen() }
	})
}

func TestCampaigns(t *testing.T) {
	storetest.RunCampaigns(t, func(t *testing.T, now func() time.Time) (storetest.CampaignStore, func() storetest.CampaignStore) {
		s, reopen := reopening(t, now)
		return s, func() storetest.CampaignStore { return reopen() }
	})
}

func TestSends(t *testing.T) {
	storetest.RunSends(t, func(t *testing.T) (storetest.SendStore, func() storetest.SendStore) {
		s, reopen := reopening(t, nil)
		return s, func() storetest.SendStore { return reopen() }
	})
}

func TestTwoSends(t *testing.T) {
	storetest.RunTwoSends(t, func(t *testing.T, now func() time.Time) (a, b storetest.SendStore) { return two(t, now) })
}

func TestPreferences(t *testing.T) {
	storetest.RunPreferences(t, func(t *testing.T) (storetest.PreferenceStore, func() storetest.PreferenceStore) {
		s, reopen := reopening(t, nil)
		return s, func() storetest.PreferenceStore { return reopen() }
	})
}

// two opens one schema twice, as two nodes do.
func two(t *testing.T, now func() time.Time) (a, b *Store) {
	t.Helper()
	cfg := config(t, now)
	return openAt(t, cfg), openAt(t, cfg)
}

func TestTwoStores(t *testing.T) {
	storetest.RunTwoEndpoints(t, func(t *testing.T, now func() time.Time) (a, b storetest.EndpointStore) { return two(t, now) })
	storetest.RunTwoCampaigns(t, func(t *testing.T, now func() time.Time) (a, b storetest.CampaignStore) { return two(t, now) })
	storetest.RunTwoPreferences(t, func(t *testing.T, now func() time.Time) (a, b storetest.PreferenceStore) { return two(t, now) })
}

// chat is the registration of a Telegram chat.
func chat(n int) audience.Registration {
	return audience.Registration{Trusted: true, Endpoint: audience.Endpoint{
		Channel: push.Telegram, Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, n)),
	}}
}

// TestAnEpochIsAboveThoseThatWereLost simulates that another machine took over as the database, without the last commits.
func TestAnEpochIsAboveThoseThatWereLost(t *testing.T) {
	clock := testclock.New()
	s := openAt(t, config(t, clock.Now))
	var last int64
	for range 3 {
		epoch, err := s.Own(t.Context(), "app")
		if err != nil || epoch <= last {
			t.Fatalf("epoch %d follows %d, %v", epoch, last, err)
		}
		last = epoch
	}
	if _, err := s.db.Pool().Exec(t.Context(), "DELETE FROM app_owner"); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	if epoch, err := s.Own(t.Context(), "app"); err != nil || epoch <= last {
		t.Errorf("epoch %d follows %d, which was lost; %v", epoch, last, err)
	}
}

// TestProvidersTextIsStoredWithoutInvalidBytes stores texts with arbitrary bytes, as a server may answer them.
func TestProvidersTextIsStoredWithoutInvalidBytes(t *testing.T) {
	s := openAt(t, config(t, nil))
	done, err := s.Register(t.Context(), "app", []audience.Registration{chat(1)})
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := s.Own(t.Context(), "app")
	if err != nil {
		t.Fatal(err)
	}
	c := &campaign.Campaign{ID: "c", App: "app", State: campaign.Running, Channels: []push.Channel{push.Telegram}}
	if _, err := s.Insert(t.Context(), c, "", [32]byte{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Enumerate(t.Context(), epoch, c.Num, 10, func(*campaign.Target) campaign.Place { return campaign.Place{Due: time.Now()} }); err != nil {
		t.Fatal(err)
	}
	const said = "a\x00b\xffc"
	err = s.Finish(t.Context(), epoch, c.Num, []campaign.Result{{
		Row: done[0].Endpoint.Number, Channel: push.Telegram, Outcome: campaign.Refused, External: said, Detail: said, Disable: said,
	}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := s.Deliveries(t.Context(), c.Num, nil, 10, 0)
	if err != nil || len(list) != 1 || list[0].Detail != "ab\uFFFDc" || list[0].External != "ab\uFFFDc" {
		t.Errorf("%+v, %v", list, err)
	}
	if e, err := s.Endpoint(t.Context(), "app", done[0].Endpoint.ID); err != nil || e.DisabledReason != "ab\uFFFDc" {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestIndexesAnswerWhatIsAskedOften checks that frequent queries need no sorting, which would take too long with a million rows.
func TestIndexesAnswerWhatIsAskedOften(t *testing.T) {
	s := openAt(t, config(t, nil))
	for name, c := range map[string]struct {
		query, index string
		args         []any
	}{
		"due":      {dueQuery, "delivery_due", []any{1, 1, 1, 1}},
		"next due": {nextDueQuery, "delivery_due", []any{1, 1, 1}},
		"last due": {lastDueQuery, "delivery_due", []any{1, 1, 1}},
		"unknown":  {"SELECT endpoint FROM delivery WHERE campaign = 1 AND outcome = 6 ORDER BY endpoint LIMIT 1", "delivery_unknown", nil},
		"sending":  {"SELECT d.campaign FROM delivery d JOIN campaign c ON c.num = d.campaign WHERE d.outcome = 1", "delivery_sending", nil},
		"busy":     {"SELECT num FROM campaign WHERE " + campaignrow.Busy, "campaign_state", nil},
	} {
		if plan := explain(t, s, c.query, c.args...); !strings.Contains(plan, c.index) || strings.Contains(strings.Split(plan, c.index)[0], "Sort") && name != "due" {
			t.Errorf("%s: %s", name, plan)
		}
	}
	for where, index := range map[string]string{
		`city = "Oslo"`:            "attribute_text_value",
		`vip = true and age >= 18`: "attribute_number_value",
		`tags contains "news"`:     "endpoint_tag_pkey",
	} {
		sel, err := (&audience.Audience{Where: where}).Select("")
		if err != nil {
			t.Fatal(err)
		}
		r := pages{Reader: selecting{t.Context(), s.db.Pool()}}
		if _, _, _, err := segment.Select(&r, dialect, "shop", sel, 0, 10); err != nil {
			t.Fatal(err)
		}
		plan := explain(t, s, numbered(r.query.SQL), r.query.Args...)
		if driven := plan[strings.Index(plan, "Limit  (cost")+1:]; !strings.Contains(driven, index) {
			t.Errorf("%s: %s", where, plan)
		}
	}
}

// pages records the query of a page instead of running it.
type pages struct {
	segment.Reader
	query segment.Clause
}

func (p *pages) Endpoints(query segment.Clause) ([]audience.Endpoint, error) {
	p.query = query
	return nil, nil
}

// explain returns the plan of a query when the planner prefers indexes.
func explain(t *testing.T, s *Store, query string, args ...any) (plan string) {
	t.Helper()
	err := s.db.Do(t.Context(), "explain", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"); err != nil {
			return err
		}
		plan = ""
		return pgdb.Each(ctx, tx, "EXPLAIN "+query, args, func(rows pgx.Rows) error {
			var line string
			err := rows.Scan(&line)
			plan += line + "\n"
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestRefusedValueSpoilsNoOtherRegistration registers several endpoints in a shared transaction, one with a refused value.
func TestRefusedValueSpoilsNoOtherRegistration(t *testing.T) {
	s := openAt(t, config(t, nil))
	ops := make([]*registering, 3)
	for i := range ops {
		r := chat(i + 1)
		if i == 1 {
			r.Endpoint.Locale = "\x00" // which no check lets through
		}
		ops[i] = &registering{regs: []audience.Registration{r}, done: make(chan struct{})}
	}
	s.registerTogether("app", ops)
	for i, op := range ops {
		if <-op.done; (op.err != nil) != (i == 1) || i != 1 && (len(op.results) != 1 || !op.results[0].Created || op.results[0].Endpoint.Number == 0) {
			t.Errorf("%d: %+v, %v", i, op.results, op.err)
		}
	}
}

func TestADatabaseThatIsAwayIsCalledSo(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	s := openAt(t, Config{URL: server.URL()})
	server.Kill()
	for name, call := range map[string]func() error{
		"list":     func() error { _, err := s.List(t.Context(), "app", 1, 0); return err },
		"read":     func() error { _, err := s.Endpoint(t.Context(), "app", audience.ID{}); return err },
		"register": func() error { _, err := s.Register(t.Context(), "app", []audience.Registration{chat(1)}); return err },
		"own":      func() error { _, err := s.Own(t.Context(), "app"); return err },
	} {
		if err := call(); !errors.Is(err, mailbox.ErrAway) {
			t.Errorf("%s: %v", name, err)
		}
	}
	server.Restart(t)
	if _, err := s.Register(t.Context(), "app", []audience.Registration{chat(1)}); err != nil {
		t.Errorf("when it is back: %v", err)
	}
}

func TestAClosedStoreRegistersNobody(t *testing.T) {
	s := openAt(t, config(t, nil))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(t.Context(), "app", make([]audience.Registration, 1)); !errors.Is(err, mailbox.ErrClosed) {
		t.Errorf("registering says %v", err)
	}
	if _, err := s.List(t.Context(), "app", 1, 0); !errors.Is(err, mailbox.ErrClosed) {
		t.Errorf("listing says %v", err)
	}
	if _, err := s.Own(t.Context(), "app"); !errors.Is(err, mailbox.ErrClosed) {
		t.Errorf("owning says %v", err)
	}
}
