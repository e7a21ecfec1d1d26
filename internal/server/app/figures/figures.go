// Package figures provides the server's own figures, advice and list of nodes for the API and the web page.
package figures

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/engine/memory"
	"godwit.dev/godwit/internal/gateway/admission"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/app/conns"
	"godwit.dev/godwit/internal/server/app/core"
	"godwit.dev/godwit/internal/server/app/feeds"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/app/sending"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/httpapi/operator"
	"godwit.dev/godwit/internal/server/watch"
)

// The request between nodes that collects their figures.
const (
	whatFigures   = "figures"
	figuresAtOnce = 16
	figuresLast   = time.Second
)

// Server provides the data about this server.
type Server struct {
	*ground.Ground
	Core    *core.Core
	Sending *sending.Sending
	feeds.Feeds
	Conns *conns.Connections
	Begun time.Time // when the server was started
}

// Start starts the regular readings of the server's own figures, once all parts with figures run.
func (s *Server) Start() {
	if s.Core.Cluster != nil {
		s.Core.Cluster.Answer(whatFigures, figuresLast, figuresAtOnce, func(context.Context, json.RawMessage) (any, error) {
			return s.Watch.Now(), nil
		})
	}
	s.Steps.AddRun("watch over figures", time.Second, func(ctx context.Context) error { return s.Watch.Run(ctx, s.totals) })
}

// Watched returns the server's data for the API and the pages.
func (s *Server) Watched() *watch.Server {
	return &watch.Server{
		Watch: s.Watch, Node: s.Node, Together: s.together, Advise: s.advise, Nodes: s.nodes, Live: s.live, Settings: s.settings,
		Sole: func(app string) bool {
			apps := s.Access.Apps()
			return len(apps) == 0 || len(apps) == 1 && apps[0].Name == app
		},
	}
}

// together sums the newest figures of all nodes.
func (s *Server) together(ctx context.Context) (sum watch.Sum) {
	sum.Add(s.Watch.Now())
	if s.Core.Cluster != nil {
		sum.Partial = !s.Core.Cluster.AskAll(ctx, whatFigures, func(body json.RawMessage) {
			var theirs map[string]watch.Number
			if json.Unmarshal(body, &theirs) == nil {
				sum.Add(theirs)
			}
		})
	}
	return sum
}

// totals returns the server's current figures.
func (s *Server) totals() watch.Totals {
	st, conns, topics, objects := s.Core.Mailbox.Stats(), s.Conns.Reactor.Stats(), s.Core.Topics.Counts(), s.Core.Objects.Counts()
	stored, settled := s.Core.Mailbox.Counts()
	t := watch.Totals{
		Stored: stored, Expired: settled[notification.Expired], Lost: settled[notification.Failed],
		Topics: topics.Sent, Objects: objects.Changes, Turned: s.turned(), Dropped: s.Stores.DroppedEvents(),
		Sessions: int64(s.Core.Hub.Live()), Connections: int64(conns.Connections), Pending: st.Pending, Scheduled: st.Scheduled, Queue: int64(st.Queued), Free: st.FreeBytes,
		Memory: memory.InUse(), Publish: s.Core.Publisher.Latency(), Push: make(map[watch.Ended]uint64),
	}
	t.Delivered, t.Redelivered, t.Acked = s.Core.Hub.Counts()
	t.Requests, t.Unanswered, _ = s.Core.Requests.Counts()
	for e, n := range s.Sending.Dispatch.Counts() {
		t.Push[watch.Ended{Channel: string(e.Channel), Outcome: e.Outcome.String()}] = n
	}
	return t
}

// turned counts connections of people who were turned away.
func (s *Server) turned() (n uint64) {
	for _, why := range admission.Reasons() {
		if why.Turns() {
			n += s.Conns.Gate.Refused(why)
		}
	}
	return n
}

// advise lists the problems that people of an app should handle.
func (s *Server) advise(ctx context.Context, app string) []watch.Advice {
	st, hour := s.Core.Mailbox.Stats(), s.Watch.Last(watch.Kept)
	size := func(n int64) string { return config.Size(max(n, 0)).String() }
	found := watch.State{
		Damaged: s.Stores.Damage() != nil, Full: st.Full, Free: size(st.FreeBytes), Least: s.Settings.MinFree.String(), Short: short(st.FreeBytes, int64(s.Settings.MinFree)),
		Behind: int64(st.Queued), Dropped: hour.Sum("events_dropped"), Turned: hour.Sum("connections_refused"), Failed: hour.Sum("calls_failed"), BusAway: !s.Core.Bus.Up(),
	}
	select {
	case <-s.Draining:
		found.Draining = true
	default:
	}
	if s.Settings.Postgres != "" {
		found.StoreAway = s.Core.Mailbox.Ready(ctx) != nil
	}
	if s.Core.Cluster != nil {
		for _, n := range s.Core.Cluster.Nodes() {
			if n.Missing {
				found.Missing = append(found.Missing, watch.Lost{Name: n.Name, Why: s.why(&n), Silent: n.Heard, Ended: n.Why == cluster.WhyEnded})
			}
		}
	}
	for _, to := range slices.Sorted(maps.Keys(s.Certificates)) {
		found.Certificates = append(found.Certificates, watch.Certificate{To: to, Ends: s.Certificates[to].NotAfter()})
	}
	for ch, n := range s.Sending.Dispatch.Refused() {
		if n > 0 {
			found.Refused = append(found.Refused, string(ch))
		}
	}
	slices.Sort(found.Refused)
	s.troubles(ctx, app, &found)
	return found.Advise(time.Now())
}

// troubles adds an app's stalled hooks, sinks and sources to found. A failed read is a problem of the store, not of them.
func (s *Server) troubles(ctx context.Context, app string, found *watch.State) {
	hooks, err := s.Hooks.List(ctx, app)
	if err != nil {
		s.Log.WarnContext(ctx, "hooks cannot be looked at", "app", app, "error", err)
	}
	found.Hooks = troubled(hooks, ofHook)
	sinks, err := s.Sinks.List(ctx, app)
	if err != nil {
		s.Log.WarnContext(ctx, "sinks cannot be looked at", "app", app, "error", err)
	}
	found.Sinks = troubled(sinks, ofSink)
	found.Takes = troubled(s.Sources.List(app), ofSource)
}

// live describes the activity of an app's sessions on this node, and refused connections.
func (s *Server) live(app string) (l watch.Live) {
	l.Sessions = s.Core.Hub.ByGateway(app)
	topics, all := s.Core.Topics.Subscriptions(app, watch.MostLive)
	l.Patterns = all
	for _, t := range topics {
		l.Topics = append(l.Topics, watch.Topic(t))
	}
	served, all := s.Core.Requests.Serving(app, watch.MostLive)
	l.Served = all
	for _, subject := range served {
		l.Subjects = append(l.Subjects, watch.Subject(subject))
	}
	for _, why := range admission.Reasons() {
		l.Turned = append(l.Turned, watch.Turned{Reason: why.String(), Count: s.Conns.Gate.Refused(why)})
	}
	ended := s.Core.Hub.Goodbyes()
	for _, reason := range slices.Sorted(maps.Keys(ended)) {
		l.Goodbye = append(l.Goodbye, watch.Turned{Reason: reason, Count: ended[reason]})
	}
	return l
}

// settings returns the server's settings, without secrets.
func (s *Server) settings() []watch.Setting {
	fields := config.Fields(s.Settings)
	list := make([]watch.Setting, len(fields))
	for i := range fields {
		f := &fields[i]
		list[i] = watch.Setting{Group: f.Group, Key: f.Key, Value: f.Value(), Default: f.Default, Origin: s.Settings.Origin(f.Key), Help: f.Help}
	}
	return list
}

// Figures returns the statistics of GET /v1/stats that are not about mailboxes and sessions.
func (s *Server) Figures() operator.Figures {
	st := s.Conns.Reactor.Stats()
	o, t := s.Core.Objects.Counts(), s.Core.Topics.Counts()
	asked, failed, took := s.Core.Requests.Counts()
	var steps operator.StepFigures
	steps.Accepted, steps.Failed = s.Sending.Escalations.Counts()
	return operator.Figures{
		Steps:       steps,
		Connections: st.Connections, QueuedBytes: st.Queued, PublishLatency: s.Core.Publisher.Latency(),
		Objects:  operator.ObjectFigures{Registrations: s.Core.Objects.Live(), Changes: o.Changes, Frames: o.Sent, Acks: o.Acked},
		Topics:   operator.TopicFigures{Subscriptions: t.Subscriptions, Publishes: t.Published, Messages: t.Sent, Dropped: t.Dropped},
		Requests: operator.RequestFigures{Total: asked, Failed: failed, Latency: took},
	}
}
