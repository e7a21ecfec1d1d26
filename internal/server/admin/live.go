package admin

import (
	"context"
	"maps"
	"math"
	"slices"

	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/watch"
)

// Presence knows the live sessions.
type Presence interface {
	// Slowest lists up to n sessions of an app with unacknowledged or queued messages, the slowest first.
	Slowest(ctx context.Context, app string, by session.Order, n int) (lags []session.Lag, partial bool, err error)
}

// mostSlow limits the slow sessions listed.
const mostSlow = 20

// topics is the page of subscribers and of workers that serve requests.
type topics struct {
	watch.Live
	Node    string
	Rates   []figure
	Slow    []session.Lag
	Partial bool
}

func (a *admin) showTopics(v *visit) error {
	t := topics{Live: a.Watch.Live(v.person.App), Node: a.Watch.Node}
	now := a.Watch.Now()
	for _, f := range []struct{ series, label string }{
		{"topic_messages", v.t("messages a second")}, {"requests", v.t("requests a second")}, {"requests_failed", v.t("failed a second")},
	} {
		value := math.NaN()
		if n, ok := now[f.series]; ok {
			value = float64(n)
		}
		t.Rates = append(t.Rates, figure{value, "", f.label})
	}
	var err error
	if t.Slow, t.Partial, err = a.Presence.Slowest(v.r.Context(), v.person.App, session.ByQueued, mostSlow); err != nil {
		return err
	}
	t.Slow = slices.DeleteFunc(t.Slow, func(l session.Lag) bool { return l.Queued == 0 && !l.Info.Behind })
	return a.show(v, "topics", v.t("Topics and workers"), "topics", t)
}

// entrance is the page about new connections and the gateways of sessions.
type entrance struct {
	Node              string
	Sessions          []throughGateway
	Turned, Goodbye   []watch.Turned
	Refused, Accepted float64 // connections refused a second; open
}

type throughGateway struct {
	Name  string
	Count int64
}

// gateways holds the gateways of sessions, in words.
var gateways = map[string]string{"ws": "WebSocket", "grpc": "gRPC", "sse": "server-sent events", "poll": "long-poll", "mqtt": "MQTT", "nats": "NATS"}

func (a *admin) showGateway(v *visit) error {
	live, now := a.Watch.Live(v.person.App), a.Watch.Now()
	e := entrance{Node: a.Watch.Node, Turned: live.Turned, Goodbye: live.Goodbye, Refused: math.NaN(), Accepted: math.NaN()}
	for _, name := range slices.Sorted(maps.Keys(live.Sessions)) {
		words := gateways[name]
		if words == "" {
			words = name
		}
		e.Sessions = append(e.Sessions, throughGateway{words, int64(live.Sessions[name])})
	}
	if n, ok := now["connections"]; ok {
		e.Accepted, e.Refused = float64(n), float64(now["connections_refused"])
	}
	return a.show(v, "gateway", v.t("Gateway"), "gateway", e)
}
