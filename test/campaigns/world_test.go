package campaigns

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	shared "godwit.dev/godwit/internal/store/postgres/campaigndb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/cluster"
)

var (
	subscribers = flag.Int("subscribers", thorough.Rounds(300, 700), "Web Push subscribers of the mixed and the killed campaign")
	killedRate  = flag.Int("killed-rate", 0, "messages a second of the killed campaign; 0: all within six seconds")
	capped      = flag.Int("capped", thorough.Rounds(3000, 6000), "subscribers at a push service that takes 200 a second")
	chats       = flag.Int("chats", thorough.Rounds(60, 120), "Telegram chats")
	several     = flag.Int("nodes", 0, "3: three nodes on PostgreSQL behind HAProxy in the place of one server; 0: one server")
	scale       = flag.Bool("scale", false, "measure sends a second and memory; fails where they are not what they should be")

	fewSubscribers  = flag.Int("few", 14_000, "subscribers of the small campaign that -scale measures")
	profiles        = flag.String("profiles", "", "folder for CPU profiles of the server that -scale measures")
	manySubscribers = flag.Int("many", 1_000_000, "subscribers of the large campaign that -scale measures; 0: none")
)

// registrar is a store of endpoints, of either kind.
type registrar interface {
	Register(ctx context.Context, app string, regs []audience.Registration) ([]audience.Registered, error)
	Close() error
}

// serve puts endpoints into a store and starts the server on it, or several nodes behind HAProxy.
func serve(t *testing.T, nodes, n int, make func(i int) audience.Endpoint, opts ...blackbox.Option) (w *world, ids []string) {
	t.Helper()
	opts = append([]blackbox.Option{blackbox.Args("--allow-private-urls")}, opts...)
	if nodes > 0 {
		url := pgtest.Database(t)
		store, err := shared.Open(t.Context(), shared.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		ids = seed(t, store, n, make)
		c := cluster.Start(t, cluster.Options{Nodes: nodes, Postgres: func(int) string { return url }, Serve: opts})
		return &world{T: t, server: c.Front(), nodes: c.Nodes, api: c.Front().API()}, ids
	}
	dir := t.TempDir()
	store, err := campaigndb.Open(t.Context(), filepath.Join(dir, "campaign.db"), campaigndb.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ids = seed(t, store, n, make)
	s := blackbox.Start(t, append(opts, blackbox.Dev(), blackbox.In(dir))...)
	return &world{T: t, server: s, api: s.API()}, ids
}

// alone skips a test that kills or measures a single server if there are several nodes.
func alone(t *testing.T) {
	t.Helper()
	if *several > 0 {
		t.Skip("it is about one server: TestACampaignChangesItsNodeAndReachesNobodyTwice kills one of several")
	}
}

// seed puts endpoints into a store before a server starts, and closes it.
func seed(t *testing.T, store registrar, n int, make func(i int) audience.Endpoint) (ids []string) {
	t.Helper()
	defer store.Close()
	for len(ids) < n {
		regs := []audience.Registration{}
		for i := len(ids); i < min(n, len(ids)+5000); i++ {
			e := make(i)
			e.ID, e.App = audience.NewID(time.Now()), "demo"
			if err := e.Check(); err != nil {
				t.Fatal(err)
			}
			regs = append(regs, audience.Registration{Endpoint: e, Trusted: true})
		}
		done, err := store.Register(t.Context(), "demo", regs)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range done {
			if d.Err != nil {
				t.Fatal(d.Err)
			}
			ids = append(ids, d.Endpoint.ID.String())
		}
	}
	return ids
}

// pushing starts a server beside a push service, with subscribers whose behavior behave gives. It returns their endpoints by subscription,
// in order.
func pushing(t *testing.T, n int, o pushserver.Options, behave func(i int) pushserver.Behaviour, opts ...blackbox.Option) (*world, *pushserver.Server, []subscriber) {
	t.Helper()
	provider := pushserver.Start(o)
	t.Cleanup(provider.Close)
	cert := filepath.Join(t.TempDir(), "push.pem")
	if err := os.WriteFile(cert, provider.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	subs := make([]subscriber, n)
	opts = append([]blackbox.Option{blackbox.Env("SSL_CERT_FILE=" + cert)}, opts...)
	w, ids := serve(t, *several, n, func(i int) audience.Endpoint {
		var address json.RawMessage
		subs[i].push, address = provider.Subscribe(behave(i))
		return audience.Endpoint{Channel: push.WebPush, Address: address}
	}, opts...)
	for i := range subs {
		subs[i].endpoint = ids[i]
	}
	return w, provider, subs
}

// subscriber is one subscription: its name at the push service and at Godwit.
type subscriber struct{ push, endpoint string }

type world struct {
	*testing.T
	server *blackbox.Server
	nodes  []*blackbox.Server // the nodes behind the server, if that is HAProxy
	api    *blackbox.API
}

type campaign struct {
	ID, State, Detail, Rate string
	Counts                  map[string]int
	Total                   int
	Enumerated              bool
	NotRecalled             int `json:"not_recalled"`
	Correction              struct {
		Corrected    int
		NotCorrected int `json:"not_corrected"`
	}
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
}

// try asks the server.
func (w *world) try(method, path string, body, into any) error {
	return w.api.Try(w.Context(), method, path, body, into)
}

// program returns a server whose program runs commands: what stands before several nodes has none.
func (w *world) program() *blackbox.Server {
	if w.nodes != nil {
		return w.nodes[0]
	}
	return w.server
}

// call makes a request and fails the test unless it succeeds.
func (w *world) call(method, path string, body, into any) {
	w.Helper()
	w.api.Call(w, method, path, body, into)
	if method == http.MethodPut && (strings.HasPrefix(path, "/v1/channels/") || strings.HasPrefix(path, "/v1/categories/")) {
		w.known(path)
	}
}

// known waits until all nodes have the same settings of a channel or category. A node reads the changes that others have made up to a second later.
func (w *world) known(path string) {
	w.Helper()
	blackbox.Eventually(w, "all nodes know "+path, func() error {
		var first string
		for i, n := range w.nodes {
			a, err := n.API().Do(w.Context(), http.MethodGet, path, nil)
			if err == nil && a.Status != http.StatusOK {
				err = fmt.Errorf("node %d: %d", i, a.Status)
			}
			if err != nil {
				return err
			}
			if i == 0 {
				first = string(a.Body)
			}
			if string(a.Body) != first {
				return fmt.Errorf("node %d has other settings than the first", i)
			}
		}
		return nil
	})
}

func (w *world) start(spec map[string]any) string {
	w.Helper()
	var c campaign
	if w.nodes == nil {
		w.call(http.MethodPost, "/v1/campaigns", spec, &c)
		w.call(http.MethodPost, "/v1/campaigns/"+c.ID+"/start", nil, nil)
		return c.ID
	}
	// The node that gets the request may not know a new channel yet.
	blackbox.Eventually(w, "a node makes the campaign", func() error { return w.try(http.MethodPost, "/v1/campaigns", spec, &c) })
	blackbox.Eventually(w, "a node starts it", func() error { return w.try(http.MethodPost, "/v1/campaigns/"+c.ID+"/start", nil, nil) })
	return c.ID
}

// ended waits until a campaign is in a state.
func (w *world) ended(id, state string, patience time.Duration) (c campaign) {
	w.Helper()
	blackbox.EventuallyWithin(w, patience, "the campaign is "+state, func() error {
		a, err := w.api.Do(w.Context(), http.MethodGet, "/v1/campaigns/"+id, nil)
		if err != nil {
			return err
		}
		if err := a.JSON(&c); err != nil {
			return err
		}
		if c.State != state {
			return fmt.Errorf("it is %s (%s): %v", c.State, c.Detail, c.Counts)
		}
		return nil
	})
	return c
}

type delivery struct {
	Endpoint, Outcome, Detail, Recall string
	Variant                           string
	Due                               time.Time `json:"due"`
	Attempts                          int
	Unsure                            bool
}

// report reads all deliveries by endpoint; two of one endpoint fail the test.
func (w *world) report(id string) map[string]delivery {
	w.Helper()
	a, err := w.api.Do(w.Context(), http.MethodGet, "/v1/campaigns/"+id+"/deliveries", nil)
	if err != nil || a.Status != http.StatusOK {
		w.Fatal(err, a)
	}
	all := make(map[string]delivery)
	lines := bufio.NewScanner(bytes.NewReader(a.Body))
	for lines.Scan() {
		var d delivery
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			w.Fatal(err)
		}
		if _, twice := all[d.Endpoint]; twice {
			w.Errorf("endpoint %s has two deliveries", d.Endpoint)
		}
		all[d.Endpoint] = d
	}
	return all
}

// disabled reports whether an endpoint is disabled.
func (w *world) disabled(endpoint string) bool {
	w.Helper()
	var e struct{ Status string }
	w.call(http.MethodGet, "/v1/endpoints/"+endpoint, nil, &e)
	return e.Status == "disabled"
}
