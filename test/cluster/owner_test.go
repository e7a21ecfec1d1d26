package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// owner returns the node that holds a lease now.
func owner(ctx context.Context, t *testing.T, db *pgx.Conn, lease string) int {
	t.Helper()
	var name string
	if err := db.QueryRow(ctx, "SELECT split_part(holder, '/', 1) FROM godwit_lease.lease WHERE name = $1", lease).Scan(&name); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if Name(i) == name {
			return i
		}
	}
	t.Fatalf("%s has lease %s", name, lease)
	return 0
}

// TestAnOwnerThatSleptPastItsLeaseSendsNothing: a node is suspended while it sends a campaign, and another one continues. When the first
// one resumes, it must not repeat the messages of the other.
func TestAnOwnerThatSleptPastItsLeaseSendsNothing(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	thorough.Only(t, "TestACampaignChangesItsNodeAndReachesNobodyTwice of test/campaigns, which stops an owner past its lease as well,")
	const chats = 60
	telegram := botserver.Start(botserver.Options{Token: botToken})
	t.Cleanup(telegram.Close)
	url := pgtest.Database(t)
	c := Start(t, Options{Postgres: func(int) string { return url }, Serve: []blackbox.Option{blackbox.Plain(), blackbox.Args("--allow-private-urls")}})
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	api := c.Front().API()
	api.Call(t, http.MethodPut, "/v1/channels/telegram", map[string]any{"token": botToken, "base_url": telegram.URL}, nil)
	for i := range chats {
		api.Call(t, http.MethodPost, "/v1/endpoints", map[string]any{"channel": "telegram", "address": json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, 1000+i))}, nil)
	}
	var news struct {
		ID, State string
		Counts    map[string]int
	}
	blackbox.Eventually(t, "the node that is asked knows of the channel", func() error {
		return api.Try(t.Context(), http.MethodPost, "/v1/campaigns", map[string]any{
			"content": map[string]any{"title": "Hi"}, "audience": map[string]any{"channels": []string{"telegram"}}, "rate": "10/s",
		}, &news)
	})
	blackbox.Eventually(t, "the node that is asked starts it", func() error {
		return api.Try(t.Context(), http.MethodPost, "/v1/campaigns/"+news.ID+"/start", nil, nil)
	})
	blackbox.Eventually(t, "a part is sent", func() error {
		if n := len(telegram.Messages()); n < chats/12 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	first := owner(t.Context(), t, db, "campaigns/demo")
	api = c.Nodes[(first+1)%len(c.Nodes)].API()
	if err := syscall.Kill(c.Nodes[first].PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	blackbox.Eventually(t, "another node finishes the campaign", func() error {
		api.Call(t, http.MethodGet, "/v1/campaigns/"+news.ID, nil, &news)
		if news.State != "completed" {
			return fmt.Errorf("it is %s: %v", news.State, news.Counts)
		}
		return nil
	})
	if now := owner(t.Context(), t, db, "campaigns/demo"); now == first {
		t.Error("the lease is still that of the node that sleeps")
	}
	if err := syscall.Kill(c.Nodes[first].PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// It is awake when it serves. It has had its turn when it has published once and received messages of the others again.
	woken := c.Nodes[first].API()
	blackbox.Eventually(t, "the node that slept serves", func() error {
		return woken.Publish(t.Context(), map[string]any{"id": "awake", "to": "ann", "title": "x"})
	})
	c.Joined(len(c.Nodes))
	sent := map[int64]int{}
	for _, m := range telegram.Messages() {
		if sent[m.Chat]++; sent[m.Chat] > 1 {
			t.Errorf("chat %d got it %d times", m.Chat, sent[m.Chat])
		}
	}
	if news.Counts["accepted"]+news.Counts["unknown"] != chats || len(sent) < news.Counts["accepted"] {
		t.Errorf("%d chats got it of %d: %v", len(sent), chats, news.Counts)
	}
	t.Logf("%v", news.Counts)
}
