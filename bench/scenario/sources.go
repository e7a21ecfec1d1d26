package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/outbox"
)

// Sources measures notifications that transactions of a PostgreSQL database publish, beside the same over HTTP.
type Sources struct {
	Common
	Clients int
	Writers int     // connections to the database, and publishers over HTTP
	Rate    float64 // transactions a second
	Size    int     // bytes of data
	Warmup  time.Duration
	For     time.Duration
	Rows    int // transactions of one row whose CPU time is measured; 0: that is not measured
	Bulk    int // messages of the one large transaction; 0: that is not measured
	Other   int // megabytes that another database writes; 0: that is not measured
}

// Run measures all parts.
func (s *Sources) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("sources", "Sources: notifications of PostgreSQL transactions, beside the same over HTTP",
		set("clients", s.Clients), set("writers", s.Writers), set("rate", report.Format(s.Rate)+"/s"), set("size", fmt.Sprintf("%d B", s.Size)), set("for", s.For),
		set("rows that wait", s.Rows), set("messages in bulk", s.Bulk), set("other database", fmt.Sprintf("%d MB", s.Other)))
	return r, s.runs(ctx, func(ctx context.Context, n int) error {
		x, err := s.start(ctx)
		if err != nil {
			return err
		}
		defer x.close()
		for _, part := range []func(context.Context, *report.Result, *publisherDB, int) error{s.reach, s.cost, s.bulk, s.kept} {
			if err := part(ctx, r, x, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// publisherDB is an application's database, with a server that reads it.
type publisherDB struct {
	*testbed.Site
	pg *testbed.Postgres
	db *testbed.Database
}

func (x *publisherDB) close() {
	if x.Site != nil {
		x.Close()
	}
	x.pg.Close()
}

func (s *Sources) start(ctx context.Context) (*publisherDB, error) {
	s.Testbed.Say("starting PostgreSQL")
	pg, err := testbed.StartPostgres(ctx, s.Testbed.Server.Dir, map[string]string{"wal_level": "logical"})
	if err != nil {
		return nil, err
	}
	x := &publisherDB{pg: pg}
	if x.db, err = pg.NewDatabase(ctx); err == nil {
		err = x.db.Exec(ctx, outbox.Kinds(nil)[outboxSource].(source.Schemer).Schema())
	}
	if err == nil {
		bed := *s.Testbed
		bed.Server.Args = append(slices.Clone(bed.Server.Args), "--allow-private-urls") // PostgreSQL has a socket only
		x.Site, err = bed.NewSite(ctx, 1)
	}
	for _, kind := range []string{logSource, outboxSource} {
		if err == nil {
			err = x.Servers[0].Call(ctx, http.MethodPut, "/v1/sources/"+kind, map[string]any{"kind": kind, "url": x.db.URL}, nil)
		}
		if err == nil {
			err = x.pause(ctx, kind)
		}
	}
	if err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

// Kinds of sources, which are also the names of the two sources.
const (
	logSource    = "postgres"
	outboxSource = "postgres-outbox"
)

// sourceView is what the measurement needs of a source.
type sourceView struct {
	State  string `json:"state"`
	Error  string `json:"last_error"`
	Counts struct {
		Stored int64 `json:"stored"`
	} `json:"counts"`
}

// sourcePatience limits how long a source may take for anything.
const sourcePatience = 2 * time.Minute

// await waits until a source is as it should be, looking every interval.
func (x *publisherDB) await(ctx context.Context, name string, interval time.Duration, done func(*sourceView) bool) error {
	ctx, cancel := context.WithTimeout(ctx, sourcePatience)
	defer cancel()
	for {
		var v sourceView
		if err := x.Servers[0].Call(ctx, http.MethodGet, "/v1/sources/"+name, nil, &v); err != nil {
			return err
		}
		if done(&v) {
			return nil
		}
		if err := wait(ctx, interval); err != nil {
			return fmt.Errorf("the source %s is %s and stored %d: %s: %w", name, v.State, v.Counts.Stored, v.Error, err)
		}
	}
}

// resume lets a source read, and waits until it does.
func (x *publisherDB) resume(ctx context.Context, name string) error {
	if err := x.Servers[0].Call(ctx, http.MethodPost, "/v1/sources/"+name+"/resume", struct{}{}, nil); err != nil {
		return err
	}
	return x.await(ctx, name, sampling, func(v *sourceView) bool { return v.State == string(source.Running) })
}

// pause lets a source rest. It has been read before, so that a slot exists.
func (x *publisherDB) pause(ctx context.Context, name string) error {
	if err := x.await(ctx, name, sampling, func(v *sourceView) bool { return v.State == string(source.Running) }); err != nil {
		return err
	}
	return x.Servers[0].Call(ctx, http.MethodPost, "/v1/sources/"+name+"/pause", struct{}{}, nil)
}

// publishing is one way to publish what the clients get.
type publishing struct {
	group  string
	source string // empty: over HTTP
	sql    string
}

var ways = []publishing{
	{group: "over HTTP"},
	{"messages of transactions", logSource, "SELECT pg_logical_emit_message(true, 'godwit." + testbed.App + "', $1::text)"},
	{"rows of an outbox", outboxSource, "INSERT INTO godwit_outbox (body) VALUES ($1::json)"},
}

// reach measures how soon notifications reach clients that are online, by each of the ways. The order rotates from run to run.
func (s *Sources) reach(ctx context.Context, r *report.Result, x *publisherDB, run int) error {
	for i := range ways {
		way := &ways[(i+run)%len(ways)]
		s.Testbed.Say("run %d: %s", run+1, way.group)
		before, err := x.pg.Spent(ctx)
		if err != nil {
			return err
		}
		o, since, err := s.reachBy(ctx, x, way, run)
		if err != nil {
			return fmt.Errorf("%s: %w", way.group, err)
		}
		after, err := x.pg.Spent(ctx)
		if err != nil {
			return err
		}
		o.tell(r, way.group, run)
		if since == nil {
			continue
		}
		sum := since.Summary()
		r.Add(way.group, "commit's return to client p50", "ms", sum.P50)
		r.Add(way.group, "commit's return to client p99", "ms", sum.P99)
		r.Add(way.group, "PostgreSQL CPU a transaction", "µs", after.Since(before).CPU.Seconds()*1e6/(s.Rate*(s.For+s.Warmup).Seconds()))
	}
	return nil
}

func (s *Sources) reachBy(ctx context.Context, x *publisherDB, way *publishing, run int) (o *Outcome, since *latency.Histogram, err error) {
	defer x.StopWorkers()
	l := Load{
		Common: s.Common, Servers: 1, Clients: s.Clients, Publishers: s.Writers, Rate: s.Rate, Size: s.Size, Transport: loadgen.WebSocketJSON, Batch: 1,
		Warmup: s.Warmup, For: s.For,
	}
	if way.source == "" {
		bed := *s.Testbed
		bed.Profile, l.Testbed = "", &bed // which is of the sources
		o, err = l.measureOn(ctx, x.Site, run)
		return o, nil, err
	}
	if err := x.resume(ctx, way.source); err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, x.pause(ctx, way.source)) }()
	p := prefix()
	if _, err := x.Connect(ctx, l.subscribers(p), 1); err != nil {
		return nil, nil, err
	}
	w := x.Subs[0].Worker // one process sees the commits and the arrivals
	cfg := loadgen.PostgresConfig{URL: x.db.URL, SQL: way.sql, Writers: s.Writers, Size: s.Size, Prefix: p, Recipients: s.Clients}
	if _, err := w.Call(ctx, worker.Request{Postgres: &cfg}); err != nil {
		return nil, nil, err
	}
	before, err := l.warmUp(ctx, x.Site, w, run)
	if err != nil {
		return nil, nil, err
	}
	if _, err := w.Call(ctx, worker.Request{Since: true}); err != nil {
		return nil, nil, err
	}
	if o, err = l.measured(ctx, x.Site, w, before, run); err != nil {
		return nil, nil, err
	}
	reply, err := w.Call(ctx, worker.Request{Since: true})
	return o, reply.Since, err
}

// turn returns the halves of a pair in an order that alternates from run to run.
func turn(run int, pair ...func() error) []func() error {
	if run%2 == 1 {
		slices.Reverse(pair)
	}
	return pair
}
