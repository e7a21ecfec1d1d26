package mqttgate

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/topic"
)

// The figures of an app are messages below $SYS, as those of a broker: a client gets them when it subscribes, and then in intervals. It needs
// the right to subscribe to them as if they were topics.

// figuresTopic is the pattern that a credential must allow.
const figuresTopic = "%24SYS.>"

// figuresEvery is the interval.
const figuresEvery = 10 * time.Second

// watchers are the connections that follow the figures of their apps.
type watchers struct {
	g     *Gateway
	mu    sync.Mutex
	conns map[*conn][]string // their filters
	stop  context.CancelFunc // of the goroutine that runs while there are some
}

// follow adds a filter of a connection. False: it has too many.
func (w *watchers) follow(c *conn, filter string) bool {
	w.mu.Lock()
	if len(w.conns[c]) >= maxFigures {
		w.mu.Unlock()
		return false
	}
	if w.conns == nil {
		w.conns = make(map[*conn][]string)
	}
	w.conns[c] = append(w.conns[c], filter)
	if w.stop == nil {
		ctx, stop := context.WithCancel(w.g.ctx)
		w.stop = stop
		w.g.start(func() { w.run(ctx) })
	}
	w.mu.Unlock()
	c.figures([]string{filter}, w.g.figures(c.sess.App()))
	return true
}

// leave removes a filter of a connection, or all if filter is empty, and reports whether there was one.
func (w *watchers) leave(c *conn, filter string) (was bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var kept []string
	for _, f := range w.conns[c] {
		if filter == "" || f == filter {
			was = true
		} else {
			kept = append(kept, f)
		}
	}
	if len(kept) > 0 {
		w.conns[c] = kept
		return was
	}
	delete(w.conns, c)
	if len(w.conns) == 0 && w.stop != nil {
		w.stop()
		w.stop = nil
	}
	return was
}

func (w *watchers) run(ctx context.Context) {
	tick := time.NewTicker(figuresEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.mu.Lock()
		all := maps.Clone(w.conns)
		w.mu.Unlock()
		byApp := make(map[string][]figure)
		for c, filters := range all {
			app := c.sess.App()
			if byApp[app] == nil {
				byApp[app] = w.g.figures(app)
			}
			c.figures(filters, byApp[app])
		}
	}
}

// figure is a figure of an app on this node.
type figure struct{ name, value string }

func (g *Gateway) figures(app string) []figure {
	total := 0
	list := []figure{{"version", g.cfg.Version}, {"uptime", strconv.Itoa(int(g.cfg.Now().Sub(g.begun).Seconds()))}}
	for gateway, n := range g.cfg.Hub.ByGateway(app) {
		total += n
		list = append(list, figure{"sessions/" + gateway, strconv.Itoa(n)})
	}
	return append(list, figure{"sessions", strconv.Itoa(total)})
}

// figures sends the figures that one of the filters matches.
func (c *conn) figures(filters []string, list []figure) {
	for _, f := range list {
		name := sysLevel + "/" + f.name
		for _, filter := range filters {
			if matches(filter, name) {
				c.publish(&wire.Head{Topic: name, Retain: true}, []byte(f.value))
				break
			}
		}
	}
}

// matches reports whether a filter matches a name.
func matches(filter, name string) bool {
	patterns, ok := toPatterns(filter)
	for _, p := range patterns {
		if ok && topic.Match(p, toTopic(name)) {
			return true
		}
	}
	return false
}

// followFigures handles a subscription to figures.
func (c *conn) followFigures(filter string) (wire.Reason, string) {
	patterns, ok := toPatterns(filter)
	for _, p := range patterns {
		ok = ok && topic.CheckPattern("", p) == nil && strings.HasPrefix(filter, sysLevel+"/")
	}
	switch {
	case !ok:
		return wire.InvalidFilter, "not a filter"
	case !c.has(watchful):
		return wire.NotAuthorized, "your credential does not allow the figures of the app"
	case !c.gate.watchers.follow(c, filter):
		return wire.QuotaExceeded, "too many subscriptions to figures"
	}
	return wire.Success, ""
}
