package app

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/engine/memory"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/gateway/admission"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/certs"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/watch"
)

// The question by which nodes add their figures up.
const (
	whatFigures   = "figures"
	figuresAtOnce = 16
	figuresLast   = time.Second
)

// startWatch starts reading the server's own figures, once everything that has some runs.
func (a *App) startWatch(context.Context) error {
	if a.cluster != nil {
		a.cluster.Answer(whatFigures, figuresLast, figuresAtOnce, func(context.Context, json.RawMessage) (any, error) {
			return a.watch.Now(), nil
		})
	}
	a.steps.addRun("watch over figures", time.Second, func(ctx context.Context) error { return a.watch.Run(ctx, a.totals) }, a.fail)
	return nil
}

// watched is what the API and the pages tell of the server itself.
func (a *App) watched() *watch.Server {
	return &watch.Server{
		Watch: a.watch, Node: a.node(), Together: a.together, Advise: a.advise, Nodes: a.nodes, Live: a.live, Settings: a.settings,
		Sole: func(app string) bool {
			apps := a.access.Apps()
			return len(apps) == 0 || len(apps) == 1 && apps[0].Name == app
		},
	}
}

// together sums the newest figures of all nodes.
func (a *App) together(ctx context.Context) (s watch.Sum) {
	s.Add(a.watch.Now())
	if a.cluster != nil {
		s.Partial = !a.cluster.AskAll(ctx, whatFigures, func(body json.RawMessage) {
			var theirs map[string]watch.Number
			if json.Unmarshal(body, &theirs) == nil {
				s.Add(theirs)
			}
		})
	}
	return s
}

// totals are the server's figures as they are now.
func (a *App) totals() watch.Totals {
	st, conns, topics, objects := a.mailbox.Stats(), a.reactor.Stats(), a.topics.Counts(), a.objects.Counts()
	stored, settled := a.mailbox.Counts()
	t := watch.Totals{
		Stored: stored, Expired: settled[notification.Expired], Lost: settled[notification.Failed],
		Topics: topics.Sent, Objects: objects.Changes, Turned: a.turned(), Dropped: a.stores.DroppedEvents(),
		Sessions: int64(a.hub.Live()), Connections: int64(conns.Connections), Pending: st.Pending, Scheduled: st.Scheduled, Queue: int64(st.Queued), Free: st.FreeBytes,
		Memory: memory.InUse(), Publish: a.publisher.Latency(), Push: make(map[watch.Ended]uint64),
	}
	t.Delivered, t.Redelivered, t.Acked = a.hub.Counts()
	t.Requests, t.Unanswered, _ = a.requests.Counts()
	for e, n := range a.dispatch.Counts() {
		t.Push[watch.Ended{Channel: string(e.Channel), Outcome: e.Outcome.String()}] = n
	}
	return t
}

// turned counts connections that were refused.
func (a *App) turned() (n uint64) {
	for _, why := range admission.Reasons() {
		n += a.gate.Refused(why)
	}
	return n
}

// advise says what somebody of an app should look at.
func (a *App) advise(ctx context.Context, app string) []watch.Advice {
	st, hour := a.mailbox.Stats(), a.watch.Last(watch.Kept)
	size := func(n int64) string { return config.Size(max(n, 0)).String() }
	s := watch.State{
		Damaged: a.stores.Damage() != nil, Full: st.Full, Free: size(st.FreeBytes), Least: a.cfg.MinFree.String(), Short: st.FreeBytes > 0 && st.FreeBytes < 2*int64(a.cfg.MinFree),
		Behind: int64(st.Queued), Dropped: hour.Sum("events_dropped"), Turned: hour.Sum("connections_refused"), Failed: hour.Sum("calls_failed"), BusAway: !a.bus.Up(),
	}
	select {
	case <-a.draining:
		s.Draining = true
	default:
	}
	if a.cfg.Postgres != "" {
		s.StoreAway = a.mailbox.Ready(ctx) != nil
	}
	if a.cluster != nil {
		for _, n := range a.cluster.Nodes() {
			if n.Missing {
				s.Missing = append(s.Missing, watch.Lost{Name: n.Name, Why: a.why(&n), Silent: n.Heard, Ended: n.Why == cluster.WhyEnded})
			}
		}
	}
	for _, to := range slices.Sorted(maps.Keys(a.certificates)) {
		s.Certificates = append(s.Certificates, watch.Certificate{To: to, Ends: a.certificates[to].NotAfter()})
	}
	for ch, n := range a.dispatch.Refused() {
		if n > 0 {
			s.Refused = append(s.Refused, string(ch))
		}
	}
	slices.Sort(s.Refused)
	a.troubles(ctx, app, &s)
	return s.Advise(time.Now())
}

// troubles are an app's hooks, sinks and sources that do not go on. A failed read is the store's trouble, not theirs.
func (a *App) troubles(ctx context.Context, app string, s *watch.State) {
	hooks, err := a.hooks.List(ctx, app)
	if err != nil {
		a.log.WarnContext(ctx, "hooks cannot be looked at", "app", app, "error", err)
	}
	for i := range hooks {
		switch h := &hooks[i]; h.State {
		case hook.Failing:
			s.Hooks = append(s.Hooks, watch.Trouble{Name: h.Hook.Name, State: string(h.State), Error: h.LastError, Since: h.Progress.Failing})
		case hook.Paused:
			s.Hooks = append(s.Hooks, watch.Trouble{Name: h.Hook.Name, State: string(h.State), Error: h.Progress.Paused, Since: h.PausedAt})
		}
	}
	sinks, err := a.sinks.List(ctx, app)
	if err != nil {
		a.log.WarnContext(ctx, "sinks cannot be looked at", "app", app, "error", err)
	}
	for i := range sinks {
		if k := &sinks[i]; k.State == sink.Failing || k.State == sink.Stopped {
			s.Sinks = append(s.Sinks, watch.Trouble{Name: k.Kind, State: string(k.State), Error: k.Error, Since: k.Since})
		}
	}
	for _, from := range a.sources.List(app) {
		if from.State == source.Failing {
			s.Takes = append(s.Takes, watch.Trouble{Name: from.Kind, State: string(from.State), Error: from.Error, Since: from.Since})
		}
	}
}

// nodes are those that this one knows of, itself first, and what each owns.
func (a *App) nodes(ctx context.Context) (list []watch.Node, owned []watch.Lease, err error) {
	v, err := a.view(ctx)
	if err != nil {
		return nil, nil, err
	}
	list = []watch.Node{{Name: a.node(), Version: a.opts.Version, State: "self", Sessions: a.hub.Live(), Up: time.Since(a.begun)}}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, n := range v.Nodes {
		if n.State != "self" {
			list = append(list, watch.Node{
				Name: n.Name, Version: n.Version, State: n.State, Sessions: n.Sessions, Up: time.Duration(n.UptimeS * float64(time.Second)), Offset: ms(n.ClockOffsetMS), Heard: ms(n.HeardAgoMS), Why: n.Why,
			})
		}
	}
	for _, l := range v.Leases {
		owned = append(owned, watch.Lease{Name: l.Name, Holder: l.Holder, Until: time.Time(l.Until)})
	}
	return list, owned, nil
}

// live is what an app's sessions on this node do, and who was turned away.
func (a *App) live(app string) (l watch.Live) {
	l.Sessions = a.hub.ByGateway(app)
	topics, all := a.topics.Subscriptions(app, watch.MostLive)
	l.Patterns = all
	for _, t := range topics {
		l.Topics = append(l.Topics, watch.Topic(t))
	}
	served, all := a.requests.Serving(app, watch.MostLive)
	l.Served = all
	for _, s := range served {
		l.Subjects = append(l.Subjects, watch.Subject(s))
	}
	for _, why := range admission.Reasons() {
		l.Turned = append(l.Turned, watch.Turned{Reason: why.String(), Count: a.gate.Refused(why)})
	}
	ended := a.hub.Goodbyes()
	for _, reason := range slices.Sorted(maps.Keys(ended)) {
		l.Goodbye = append(l.Goodbye, watch.Turned{Reason: reason, Count: ended[reason]})
	}
	return l
}

// settings are those that the server runs with, without what is secret in them.
func (a *App) settings() []watch.Setting {
	fields := config.Fields(a.cfg)
	list := make([]watch.Setting, len(fields))
	for i := range fields {
		f := &fields[i]
		list[i] = watch.Setting{Group: f.Group, Key: f.Key, Value: f.Value(), Default: f.Default, Origin: a.cfg.Origin(f.Key), Help: f.Help}
	}
	return list
}

// showExpiry has a certificate's end shown to Prometheus and watched.
func (a *App) showExpiry(to string, files *certs.Files) {
	a.registerExpiry(to, files)
	if a.certificates == nil {
		a.certificates = make(map[string]*certs.Files)
	}
	a.certificates[to] = files
}
