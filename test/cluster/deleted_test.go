package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// TestAnAppIsDeletedByTwoNodesWhileItsCampaignIsSent: no data of the app is left, no message is sent any more, and all nodes serve a new
// app with the same name.
func TestAnAppIsDeletedByTwoNodesWhileItsCampaignIsSent(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	const chats = 60 // at 2/s: half a minute
	telegram := botserver.Start(botserver.Options{Token: botToken})
	t.Cleanup(telegram.Close)
	url := pgtest.Database(t)
	c := Start(t, Options{Nodes: 2, Postgres: func(int) string { return url }, Serve: []blackbox.Option{blackbox.Plain(), blackbox.Args("--allow-private-urls", "--erase-within", "1s")}})
	db := connect(t, url)
	api := c.Nodes[0].API()
	api.Call(t, http.MethodPut, "/v1/channels/telegram", map[string]any{"token": botToken, "base_url": telegram.URL}, nil)
	for i := range chats {
		api.Call(t, http.MethodPost, "/v1/endpoints", map[string]any{"channel": "telegram", "address": json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, 1000+i))}, nil)
	}
	var news struct{ ID string }
	api.Call(t, http.MethodPost, "/v1/campaigns", map[string]any{"content": map[string]any{"title": "Hi"}, "audience": map[string]any{"channels": []string{"telegram"}}, "rate": "2/s"}, &news)
	api.Call(t, http.MethodPost, "/v1/campaigns/"+news.ID+"/start", nil, nil)
	blackbox.Eventually(t, "a part is sent", func() error {
		if len(telegram.Messages()) < 3 {
			return errors.New("nothing is")
		}
		return nil
	})

	var deleted atomic.Int32
	var both sync.WaitGroup
	for _, n := range c.Nodes[:2] {
		both.Go(func() {
			out, err := n.Manage("app", "delete", "demo", "--yes", "--data", n.Dir, "--operator-key-file", blackbox.OperatorKey(t, c.Nodes...))
			if err == nil {
				deleted.Add(1)
			} else if !strings.Contains(out, "demo") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	both.Wait()
	if deleted.Load() == 0 {
		t.Fatal("neither node has deleted the app")
	}
	blackbox.Eventually(t, "a node has erased the app", func() error {
		for _, n := range c.Nodes {
			if strings.Contains(n.Log(), "app erased") {
				return nil
			}
		}
		return errors.New("none has")
	})
	sent := len(telegram.Messages())
	if sent == chats {
		t.Error("the campaign was sent to the end")
	}
	nothing := func() {
		t.Helper()
		for _, table := range []string{"campaign", "delivery", "campaign_count", "endpoint"} {
			var rows int
			if err := db.QueryRow(t.Context(), "SELECT count(*) FROM godwit_campaign."+table).Scan(&rows); err != nil || rows > 0 {
				t.Errorf("%d rows of %s are left, %v", rows, table, err)
			}
		}
	}
	nothing()

	if out, err := c.Nodes[0].Manage("app", "create", "demo", "--data", c.Nodes[0].Dir, "--operator-key-file", blackbox.OperatorKey(t, c.Nodes...)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, n := range c.Nodes {
		blackbox.Eventually(t, "the new app is served", func() error {
			return n.API().Publish(t.Context(), map[string]any{"id": fmt.Sprint("new-", i), "to": "ann", "title": "x"})
		})
	}
	nothing()
	if n := len(telegram.Messages()); n != sent {
		t.Errorf("%d messages of the deleted app were sent after it was erased", n-sent)
	}
}
