package access

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/notification"
)

// Values of Access: the callers that may call a service through the gateway.
const (
	ByKey    = "key"    // back ends with role publish
	ByClient = "client" // also clients with a token of the app
	ByAnyone = "public"
)

// Limits of the gateway's settings.
const (
	maxServices       = 256 // in one app, because all are read together with it
	maxSides          = 16  // of a split
	maxWeight         = 1_000_000
	serviceTimeout    = 10 * time.Second
	maxServiceTimeout = time.Minute
)

// Service holds the settings by which the gateway calls a service.
type Service struct {
	Access  string         `json:"access"`
	Timeout time.Duration  `json:"timeout"` // for an answer
	Split   map[string]int `json:"split,omitempty"`
	Cookies bool           `json:"cookies,omitempty"` // are passed on
	Upload  string         `json:"upload,omitempty"`  // UploadStore, or empty: bodies that are too large for a request are refused
}

// UploadStore keeps bodies that are too large for a request; the worker gets a reference.
const UploadStore = "store"

// plainService is the default for services without settings.
var plainService = Service{Access: ByKey, Timeout: serviceTimeout}

// Check validates a service's settings and sets defaults.
func (s *Service) Check() error {
	if s.Access == "" {
		s.Access = ByKey
	}
	if s.Timeout == 0 {
		s.Timeout = serviceTimeout
	}
	switch {
	case s.Access != ByKey && s.Access != ByClient && s.Access != ByAnyone:
		return notification.BadField("access", "must be key, client or public, not %q", notification.Clip(s.Access))
	case s.Timeout < time.Millisecond || s.Timeout > maxServiceTimeout:
		return notification.BadField("timeout", "must be between 1ms and %s", maxServiceTimeout)
	case s.Upload != "" && s.Upload != UploadStore:
		return notification.BadField("upload", "must be store or empty, not %q", notification.Clip(s.Upload))
	case len(s.Split) > maxSides:
		return notification.BadField("split", "has %d sides; at most %d are allowed", len(s.Split), maxSides)
	}
	for name, weight := range s.Split {
		if err := notification.CheckName("split", name); err != nil {
			return err
		}
		if weight < 1 || weight > maxWeight {
			return notification.BadField("split", "gives %s the weight %d; weights are from 1 to %d", name, weight, maxWeight)
		}
	}
	return nil
}

// CheckService validates a service's name: it must be a valid name, so that it is one token of a subject.
func CheckService(name string) error {
	if err := notification.CheckName("service", name); err != nil {
		return err
	}
	return topic.CheckName("service", topic.EncodeToken(name))
}

// Service returns the settings of an app's service; set reports whether they were stored.
func (r *Registry) Service(app, name string) (s Service, set bool) {
	if a := r.snap.Load().apps[app]; a != nil {
		if s, set = a.Services[name]; set {
			return s, true
		}
	}
	return plainService, false
}

// Services returns the services of an app that have stored settings.
func (r *Registry) Services(app string) map[string]Service {
	if a := r.snap.Load().apps[app]; a != nil {
		return a.Services
	}
	return nil
}

// OnlyApp returns the app that is used when a request names none; "": a request must name one.
func (r *Registry) OnlyApp() string { return r.snap.Load().only }

var services = named[Service]{
	what: "service", log: "gateway service changed", key: "service", none: ErrUnknownService,
	of: func(a *App) *map[string]Service { return &a.Services },
}

// SetService changes a service's settings, if they match.
func (r *Registry) SetService(ctx context.Context, app, name string, s Service, must setting.Match) (Service, error) {
	if err := CheckService(name); err != nil {
		return s, err
	}
	if err := s.Check(); err != nil {
		return s, err
	}
	return s, services.change(ctx, r, app, name, must, func(all map[string]Service) error {
		if _, there := all[name]; !there && len(all) >= maxServices {
			return notification.BadField("service", "the app has %d services; at most %d are allowed", len(all), maxServices)
		}
		all[name] = s
		return nil
	})
}

// DeleteService removes a service's settings, if they match. It fails with ErrUnknownService if there are none.
func (r *Registry) DeleteService(ctx context.Context, app, name string, must setting.Match) error {
	return services.delete(ctx, r, app, name, must)
}
