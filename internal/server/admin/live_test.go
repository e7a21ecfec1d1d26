package admin_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/admin"
	"godwit.dev/godwit/internal/server/watch"
)

// crowded is presence with one slow session, and one that only has something to acknowledge.
type crowded struct{}

func (crowded) Slowest(_ context.Context, app string, _ session.Order, _ int) ([]session.Lag, bool, error) {
	if app != "shop" {
		return nil, false, nil
	}
	return []session.Lag{{Recipient: "anna", Queued: 1_234_567, Info: session.Info{Device: hostile, Gateway: "ws"}}, {Recipient: "bo"}}, true, nil
}

// lively returns a server whose sessions subscribe and serve; every text that can be hostile is.
func lively() *watch.Server {
	s := watch.Alone(watch.New(), hostile)
	s.Live = func(app string) watch.Live {
		if app != "shop" {
			return watch.Live{}
		}
		return watch.Live{
			Topics: []watch.Topic{{Pattern: hostile, Sessions: 4321}, {Pattern: "jobs.*", Queue: "q", Sessions: 2, Messages: 7}}, Patterns: 300,
			Subjects: []watch.Subject{{Pattern: "orders.>", Queue: hostile, Workers: 3, Full: 1, Asked: 9}}, Served: 1,
			Sessions: map[string]int{"ws": 5, hostile: 1}, Turned: []watch.Turned{{Reason: "rate", Count: 3}, {Reason: hostile, Count: 1}}, Goodbye: []watch.Turned{{Reason: "token_expired", Count: 2}},
		}
	}
	return s
}

func TestLivePageShowsSubscribersWorkersAndSlowSessions(t *testing.T) {
	b := newWorld(t, func(c *admin.Config) { c.Watch, c.Presence = lively(), crowded{} }).signedIn()
	_, page := b.get("/ui/topics")
	checkHarmless(t, "topics", page)
	wants(t, page, "&lt;hostile", "4,321", "jobs.*", "orders.&gt;", "The 2 that most subscribe to, of 300", `href="/ui/recipients/anna"`, "1,234,567", "Not all nodes could be asked")
	if strings.Contains(page, "/ui/recipients/bo") {
		t.Error("who takes all is among those who take slowly")
	}
}

func TestHowSessionsCameAndWhyOthersDidNot(t *testing.T) {
	b := newWorld(t, func(c *admin.Config) { c.Watch, c.Presence = lively(), crowded{} }).signedIn()
	status, page := b.get("/ui/gateway")
	checkHarmless(t, "gateway", page)
	wants(t, page, "WebSocket", "faster than limit_connects", "token_expired", "&lt;hostile")
	if status != http.StatusOK {
		t.Errorf("answered %d", status)
	}
}

func TestLivePagesSayThatNobodyIsConnected(t *testing.T) {
	b := newWorld(t).signedIn()
	_, page := b.get("/ui/topics")
	wants(t, page, "Nobody subscribes to a topic now", "Nobody serves requests now")
	_, page = b.get("/ui/gateway")
	wants(t, page, "Nobody is connected")
}
