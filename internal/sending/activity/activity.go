// Package activity brings the versions of objects to the Live Activities that follow them: to each device by its token, or to everybody by a
// broadcast channel (docs/adr/0045).
//
// The way of a version: Changed → queue → Service.tell: the newest state to each endpoint that lacks it → the endpoint's attribute
// godwit_told. The next look at the store finds versions that were not told because this server or another node ended.
package activity

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	// every is the shortest time between two updates of one activity: devices order updates by a timestamp in seconds.
	every = time.Second
	// lookEvery is the interval of looks at the store for versions that were not told.
	lookEvery = time.Minute
	// grace is the age below which a change is left to the node that made it.
	grace = 10 * time.Second
	// life is how long an endpoint is kept after its last registration: an activity is active for 8 hours and shown for 4 more
	// (developer.apple.com/documentation/activitykit/displaying-live-data-with-live-activities).
	life = 24 * time.Hour
	// rest is how long an app's activities are left alone after the provider refused its credentials.
	rest = 5 * time.Minute
	// A failed update is tried again after firstRetry, doubled up to lastRetry.
	firstRetry, lastRetry = 5 * time.Second, 5 * time.Minute
	noneFor               = 5 * time.Second
	credential            = "private_key" // the setting that an app with the channel has
	objectsAtOnce         = 16
	updatesAtOnce         = 64      // of one object
	page                  = 500     // endpoints read at once
	maxQueued             = 100_000 // objects, at some 300 bytes each; the next look finds changes beyond
)

// Endpoints are the running activities.
type Endpoints interface {
	Register(ctx context.Context, app string, regs []audience.Registration) ([]audience.Registered, error)
	ListEndpoints(ctx context.Context, app string, status audience.Status, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error)
	UpdateEndpoint(ctx context.Context, app string, id audience.ID, trusted bool, change func(*audience.Endpoint) error) (audience.Endpoint, error)
	DeleteEndpoint(ctx context.Context, app string, id audience.ID) error
	DisableEndpoint(ctx context.Context, number int64, reason string) error
	EndpointCounts(ctx context.Context, app string) (active, disabled map[push.Channel]int64, err error)
}

// Objects are the objects of all apps. An object that was never put is a zero State.
type Objects interface {
	Get(ctx context.Context, app string, keys []object.Key) ([]object.State, error)
}

// Channels are the apps' channels.
type Channels interface {
	Apps(ch push.Channel) []string
	Has(app string, ch push.Channel, setting string) bool
	Sender(ctx context.Context, app string, ch push.Channel) (push.Sender, error)
}

// Config holds the parts of a Service.
type Config struct {
	Endpoints Endpoints
	Objects   Objects
	Channels  Channels
	Own       lease.Func // takes leases: one node looks for what was not told; nil: there are no other nodes
	Now       func() time.Time
	Log       *slog.Logger
}

// Service tells Live Activities the versions of their objects.
type Service struct {
	cfg     Config
	queue   queue
	results *prometheus.CounterVec

	making sync.Mutex // of broadcast channels: an object has one

	mu    sync.Mutex
	rests map[string]time.Time // by app
	none  map[string]time.Time // apps without activities, until when that is believed
	told  map[int64]time.Time  // when an endpoint was last told something, of the last second
}

// name is an object of an app.
type name struct {
	app string
	key object.Key
}

// New makes a Service, which tells changes once Run is called.
func New(cfg Config) *Service {
	return &Service{
		cfg: cfg, queue: newQueue(), rests: make(map[string]time.Time), none: make(map[string]time.Time), told: make(map[int64]time.Time),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_live_activity_updates_total", Help: "Updates of running Live Activities since start, by outcome; dropped counts objects whose update waits for the next look.",
		}, []string{"outcome"}),
	}
}

// Changed follows the commits of this node. It does not wait.
func (s *Service) Changed(batch []objectstore.Change) {
	for i := range batch {
		if c := &batch[i]; s.follows(c.App) {
			s.want(name{c.App, c.Key}, s.cfg.Now())
		}
	}
}

// Followed follows registrations: the activity gets the present version if it lacks it.
func (s *Service) Followed(e *audience.Endpoint) {
	a := e.Activity()
	s.mu.Lock()
	delete(s.none, e.App)
	s.mu.Unlock()
	s.want(name{e.App, object.Key{Group: a.Group, Object: a.Object}}, s.cfg.Now())
}

// follows reports whether an app may have activities. Changes of other apps cost two looks at maps.
func (s *Service) follows(app string) bool {
	if !s.cfg.Channels.Has(app, push.APNs, credential) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.cfg.Now().Before(s.none[app])
}

// some reports whether an app has activities. A "no" is believed for noneFor, since another node may register one.
func (s *Service) some(ctx context.Context, app string) (bool, error) {
	active, _, err := s.cfg.Endpoints.EndpointCounts(ctx, app)
	if err != nil || active[push.LiveActivity] > 0 {
		return true, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.none[app] = s.cfg.Now().Add(noneFor)
	return false, nil
}

func (s *Service) want(n name, at time.Time) {
	if !s.queue.want(n, at) {
		s.results.WithLabelValues("dropped").Inc()
	}
}

// version is what an endpoint was told: a version, and whether the object was known then.
func version(st *object.State) string {
	if st.Known {
		return st.Version.String()
	}
	return st.Version.String() + "?"
}

// lacks reports whether an endpoint has to be told a state.
func lacks(e *audience.Endpoint, st *object.State) bool {
	if st.UpdatedAt.IsZero() {
		return false // never put
	}
	told := e.Attributes[audience.ToldAttribute]
	return told.String() != version(st)
}

// update is what an endpoint is told about a state.
func update(e *audience.Endpoint, st *object.State) (u push.ActivityUpdate, err error) {
	u = push.ActivityUpdate{Address: e.Address, Urgency: push.UrgencyNormal, End: !st.Known}
	if !st.Known {
		return u, nil
	}
	state, a, err := object.ParseActivity(st.Payload)
	if err != nil {
		return u, err
	}
	u.State, u.End, u.Relevance = state, a.End, a.Relevance
	if a.Alert != nil {
		u.Urgency = push.UrgencyHigh
		u.Alert = &push.ActivityAlert{Title: a.Alert.Title, Body: a.Alert.Body, Sound: a.Alert.Sound}
	}
	if a.Priority != "" {
		u.Urgency = push.Urgency(a.Priority)
	}
	if a.StaleAfter > 0 {
		u.Stale = st.UpdatedAt.Add(a.StaleAfter)
	}
	if u.End && a.DismissAfter >= 0 {
		u.Dismiss = st.UpdatedAt.Add(a.DismissAfter)
	}
	return u, nil
}

var _ prometheus.Collector = (*Service)(nil)

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) { s.results.Describe(ch) }

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) { s.results.Collect(ch) }
