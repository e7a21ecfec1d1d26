package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/internal/sending/sendertest/hookserver"
	"godwit.dev/godwit/internal/store/postgres/campaigndb"
	"godwit.dev/godwit/test/blackbox"
)

// beside is work that one node at a time does while nodes are killed: a campaign, and a hook that gets the events of clients coming online.
type beside struct {
	t        *testing.T
	c        *Cluster
	db       *pgx.Conn
	telegram *botserver.Server
	receiver *hookserver.Server
	id       string           // of the campaign
	chats    map[int64]string // their endpoints
	owners   int              // how often the campaign has changed its owner
}

const (
	botToken     = "123456:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghi"
	campaignRate = "30/s" // what Telegram allows
	ownerChanges = 4      // at least
)

// startBeside starts a campaign to a number of chats, and a hook. No client is online yet.
func startBeside(t *testing.T, c *Cluster, url string, chats int) *beside {
	t.Helper()
	b := &beside{t: t, c: c, telegram: botserver.Start(botserver.Options{Token: botToken}), receiver: hookserver.Start(""), chats: map[int64]string{}}
	t.Cleanup(b.telegram.Close)
	t.Cleanup(b.receiver.Close)
	var err error
	if b.db, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.db.Close(context.Background()) })
	b.register(url, chats)
	var hook struct{ Secret string }
	b.call(http.MethodPut, "/v1/hooks/online", map[string]any{"url": b.receiver.URL, "types": []string{"online"}}, &hook)
	b.receiver.Secret(hook.Secret)
	b.call(http.MethodPut, "/v1/channels/telegram", map[string]any{"token": botToken, "base_url": b.telegram.URL}, nil)
	var news struct{ ID string }
	blackbox.Eventually(t, "the node that is asked knows of the channel", func() error {
		return b.try(http.MethodPost, "/v1/campaigns", map[string]any{
			"content": map[string]any{"title": "Hi"}, "audience": map[string]any{"channels": []string{"telegram"}}, "rate": campaignRate,
		}, &news)
	})
	b.id = news.ID
	blackbox.Eventually(t, "the node that is asked starts it", func() error { return b.try(http.MethodPost, "/v1/campaigns/"+b.id+"/start", nil, nil) })
	blackbox.Eventually(t, "a part is sent", func() error {
		if len(b.telegram.Messages()) == 0 {
			return fmt.Errorf("nothing is")
		}
		return nil
	})
	return b
}

func (b *beside) register(url string, chats int) {
	b.t.Helper()
	store, err := campaigndb.Open(b.t.Context(), campaigndb.Config{URL: url})
	if err != nil {
		b.t.Fatal(err)
	}
	defer store.Close()
	regs := make([]audience.Registration, chats)
	for i := range regs {
		address := json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, 1000+i))
		regs[i] = audience.Registration{Trusted: true, Endpoint: audience.Endpoint{Channel: push.Telegram, Address: address}}
	}
	done, err := store.Register(b.t.Context(), "demo", regs)
	if err != nil {
		b.t.Fatal(err)
	}
	for i, d := range done {
		b.chats[int64(1000+i)] = d.Endpoint.ID.String()
	}
}

func (b *beside) try(method, path string, body, into any) error {
	api := b.c.Front().API()
	defer api.HTTP.CloseIdleConnections()
	return api.Try(b.t.Context(), method, path, body, into)
}

func (b *beside) call(method, path string, body, into any) {
	b.t.Helper()
	if err := b.try(method, path, body, into); err != nil {
		b.t.Fatal(err)
	}
}

// victim returns the node to kill: the campaign's owner or, once that has changed often enough, the node other.
func (b *beside) victim(other int) int {
	b.t.Helper()
	if b.owners >= ownerChanges {
		return other
	}
	return owner(b.t.Context(), b.t, b.db, "campaigns/demo")
}

// killed waits until another node owns the campaign, unless the owner has changed often enough.
func (b *beside) killed(i int) {
	b.t.Helper()
	if b.owners >= ownerChanges {
		return
	}
	blackbox.Eventually(b.t, "another node owns the campaign", func() error {
		if owner(b.t.Context(), b.t, b.db, "campaigns/demo") != i || b.completed() {
			return nil
		}
		return fmt.Errorf("%s has", Name(i))
	})
	b.owners++
}

// completed reports whether the campaign has ended: nobody takes its lease then.
func (b *beside) completed() bool {
	var news struct{ State string }
	return b.try(http.MethodGet, "/v1/campaigns/"+b.id, nil, &news) == nil && news.State == "completed"
}

// end waits for the end of the campaign and of the hook's posts. It fails the test for messages that arrived twice, not at all or too late.
func (b *beside) end() {
	b.t.Helper()
	var news struct {
		State  string
		Counts map[string]int
	}
	blackbox.EventuallyWithin(b.t, 10*time.Minute, "the campaign is completed", func() error {
		if err := b.try(http.MethodGet, "/v1/campaigns/"+b.id, nil, &news); err != nil {
			return err
		}
		if news.State != "completed" {
			return fmt.Errorf("it is %s: %v", news.State, news.Counts)
		}
		return nil
	})
	b.reached(news.Counts)
	var state struct {
		Cursor string
		Newest string `json:"newest_event_id"`
	}
	blackbox.EventuallyWithin(b.t, 5*time.Minute, "the hook has come to the end", func() error {
		if err := b.try(http.MethodGet, "/v1/hooks/online", nil, &state); err != nil {
			return err
		}
		if state.Cursor != state.Newest {
			return fmt.Errorf("it is at %s of %s", state.Cursor, state.Newest)
		}
		return nil
	})
	b.posted()
}

// reached checks that no chat got the message twice, and that every delivery with a known outcome arrived.
func (b *beside) reached(counts map[string]int) {
	b.t.Helper()
	sent := map[int64]int{}
	for _, m := range b.telegram.Messages() {
		sent[m.Chat]++
	}
	outcomes := map[string]string{}
	a, err := b.c.Front().API().Do(b.t.Context(), http.MethodGet, "/v1/campaigns/"+b.id+"/deliveries", nil)
	if err != nil || a.Status != http.StatusOK {
		b.t.Fatal(a, err)
	}
	for line := range strings.Lines(string(a.Body)) {
		var d struct{ Endpoint, Outcome string }
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			b.t.Fatal(err)
		}
		outcomes[d.Endpoint] = d.Outcome
	}
	for chat, endpoint := range b.chats {
		switch n := sent[chat]; {
		case n > 1:
			b.t.Errorf("chat %d got it %d times", chat, n)
		case n == 0 && outcomes[endpoint] != "unknown":
			b.t.Errorf("chat %d never got it and is %s", chat, outcomes[endpoint])
		}
	}
	b.t.Logf("a campaign to %d chats changed its node at least %d times: %d got it, %v", len(b.chats), b.owners, len(sent), counts)
}

// posted checks that each event of the log was posted at least once, and none before an earlier one of its recipient.
func (b *beside) posted() {
	b.t.Helper()
	if refused := b.receiver.Refused(); len(refused) > 0 {
		b.t.Errorf("signatures were wrong: %v", refused)
	}
	first, posts := map[string]int{}, b.receiver.Took()
	for i, m := range posts {
		var e struct {
			ID string `json:"event_id"`
		}
		if err := json.Unmarshal([]byte(m.Body), &e); err != nil {
			b.t.Fatal(err)
		}
		if _, before := first[e.ID]; !before {
			first[e.ID] = i
		}
	}
	missing := maps.Clone(first)
	last, n := map[string]int{}, 0 // by recipient
	err := b.c.Front().API().Events(b.t.Context(), "online", func(e blackbox.Event) bool {
		id := strings.Trim(string(e.EventID), `"`)
		place, came := first[id]
		switch {
		case !came:
			b.t.Errorf("event %s was never posted", id)
		case place < last[e.To]:
			b.t.Errorf("event %s was posted before an earlier one of %s", id, e.To)
		}
		delete(missing, id)
		last[e.To], n = max(last[e.To], place), n+1
		return len(missing) > 0
	})
	if err != nil {
		b.t.Error(err)
	}
	b.t.Logf("%d events in %d posts", n, len(posts))
}
