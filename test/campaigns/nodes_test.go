package campaigns

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/internal/store/postgres/campaigndb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// nodes are servers on one database.
type nodes struct {
	*testing.T
	url     string
	servers map[string]*blackbox.Server
}

func startNodes(t *testing.T, n int) *nodes {
	t.Helper()
	c := &nodes{T: t, url: pgtest.Database(t), servers: map[string]*blackbox.Server{}}
	for i := range n {
		name := fmt.Sprint("n", i)
		c.servers[name] = blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--allow-private-urls", "--postgres", c.url, "--node", name))
	}
	return c
}

// chats registers so many chats.
func (c *nodes) chats(n int) (ids []string) {
	c.Helper()
	store, err := campaigndb.Open(c.Context(), campaigndb.Config{URL: c.url})
	if err != nil {
		c.Fatal(err)
	}
	defer store.Close()
	regs := make([]audience.Registration, n)
	for i := range regs {
		regs[i] = audience.Registration{Trusted: true, Endpoint: audience.Endpoint{Channel: push.Telegram, Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, chat(i)))}}
	}
	done, err := store.Register(c.Context(), "demo", regs)
	if err != nil {
		c.Fatal(err)
	}
	for _, d := range done {
		ids = append(ids, d.Endpoint.ID.String())
	}
	return ids
}

// owner waits until a node other than not owns the app's campaigns, and returns its name.
func (c *nodes) owner(not string) (name string) {
	c.Helper()
	blackbox.EventuallyWithin(c, time.Minute, "another node owns the campaign", func() error {
		ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
		defer cancel()
		db, err := pgx.Connect(ctx, c.url)
		if err != nil {
			return err
		}
		defer func() { _ = db.Close(ctx) }()
		err = db.QueryRow(ctx, `SELECT split_part(holder, '/', 1) FROM godwit_lease.lease
			WHERE name = 'campaigns/demo' AND until > extract(epoch FROM clock_timestamp()) * 1000`).Scan(&name)
		if err == nil && name == not {
			return fmt.Errorf("it is %s", name)
		}
		return err
	})
	return name
}

// TestACampaignChangesItsNodeAndReachesNobodyTwice: one owner is killed, one is suspended past the end of its lease and resumed, and one is
// told to stop.
func TestACampaignChangesItsNodeAndReachesNobodyTwice(t *testing.T) {
	blackbox.Long(t)
	telegram := botserver.Start(botserver.Options{Token: botToken, Rate: 30, Every: time.Second})
	t.Cleanup(telegram.Close)
	c := startNodes(t, 3)
	ids := c.chats(450)
	api := func(node string) *world { return &world{T: t, server: c.servers[node], api: c.servers[node].API()} }
	api("n0").call(http.MethodPut, "/v1/channels/telegram", map[string]any{"token": botToken, "base_url": telegram.URL}, nil)
	var id string
	blackbox.Eventually(t, "another node knows of the channel", func() error {
		w := api("n1")
		a, err := w.api.Do(t.Context(), http.MethodPost, "/v1/campaigns", telegramNews)
		if err != nil {
			return err
		}
		var made campaign
		if err := a.JSON(&made); err != nil {
			return err
		}
		if a, err = w.api.Do(t.Context(), http.MethodPost, "/v1/campaigns/"+made.ID+"/start", nil); err == nil && a.Status >= 300 {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		id = made.ID
		return err
	})
	sent := func(goal int) {
		t.Helper()
		blackbox.EventuallyWithin(t, time.Minute, "a part is sent", func() error { return atLeast(len(telegram.Messages()), goal) })
	}

	sent(60)
	killed := c.owner("")
	c.servers[killed].Kill()
	stopped := c.owner(killed)
	sent(160)
	if err := syscall.Kill(c.servers[stopped].PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(c.servers[stopped].PID(), syscall.SIGCONT) }) // otherwise it could not be ended
	if err := c.servers[killed].Launch(); err != nil {
		t.Fatal(err)
	}
	asked := c.owner(stopped)
	if err := syscall.Kill(c.servers[stopped].PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	sent(300)
	if code := c.servers[asked].Stop(); code != 0 {
		t.Errorf("the node that was asked to stop ended with %d", code)
	}
	last := c.owner(asked)
	w := api(last)
	done := w.ended(id, "completed", 2*time.Minute)

	got, report := byChat(telegram), w.report(id)
	for i, ep := range ids {
		switch n, d := got[chat(i)], report[ep]; {
		case n > 1:
			t.Errorf("chat %d got it %d times", chat(i), n)
		case n == 0 && d.Outcome != "unknown":
			t.Errorf("chat %d never got it and is %s", chat(i), d.Outcome)
		}
	}
	if parked := done.Counts["unknown"]; parked > 3*mostParked || done.Counts["accepted"]+parked != len(ids) {
		t.Errorf("a kill, a stop and a restart parked %d chats: %v", parked, done.Counts)
	}
	if n := telegram.Flooded(); n > len(ids)/10 { // a few where the machine stalls
		t.Errorf("Telegram objected %d times: two nodes sent at once", n)
	}
	t.Logf("killed %s, stopped %s, asked %s, ended by %s: %v", killed, stopped, asked, last, done.Counts)
}
