package pushgate

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/gateway/pushgate/channeldb"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/problem"
)

// Name is the module's.
const Name = "push"

// settings are those of the push service.
type settings struct {
	On        bool   `key:"push_service" default:"false" group:"Push service" help:"be a push service for browsers, phones and any sender of Web Push: devices connect at /push, senders post to /wpush/"`
	Origins   string `key:"push_origins" default:"" group:"Push service" help:"origins under which senders reach the push service, like https://push.example.org, with a space between several: the first is that of new push endpoints, and VAPID tokens name one of them; empty: that of public_url, or else of each request"`
	Channels  int    `key:"push_channels" default:"256" min:"1" max:"10000" group:"Push service" help:"most channels (subscriptions) of a device"`
	Registers int    `key:"push_registrations" default:"600" min:"0" max:"1000000" group:"Push service" help:"registrations of channels a minute from one address; 0: no limit"`
	KeepDays  int    `key:"push_keep_days" default:"60" min:"0" max:"3650" group:"Push service" help:"days that a device may stay away before it and its channels are deleted; 0: for ever"`
	Beat      int    `key:"push_ping_seconds" default:"300" min:"5" max:"86400" group:"Push service" help:"a device that is silent for so many seconds is asked for a sign of life; more save phones' batteries, fewer keep connections through routers that forget them"`
}

// Validate implements config.Validator.
func (s *settings) Validate(bad func(key, value, format string, args ...any)) {
	for _, o := range strings.Fields(s.Origins) {
		if u, err := url.Parse(o); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Scheme+"://"+u.Host != o {
			bad("push_origins", o, "is not an origin, like https://push.example.org, without a path")
		}
	}
}

const endpointPattern = "/wpush/{version}/{token}"

// closing limits how long the last registrations may take when the server stops.
const closing = patience

// Opened learns, once the push service has started, under which origins its push endpoints are, and what serves them.
type Opened func(origins []string, endpoints http.Handler)

// Module serves devices at /push and senders at /wpush/ and /m/ of the HTTP listener. The server's own channel learns from opened where that is.
func Module(opened Opened) module.Module {
	var s settings
	lite, pg := channeldb.Migrations()
	return module.Module{
		Name: Name, Settings: &s, Tables: module.Tables{SQLite: lite, Postgres: pg},
		Start: func(_ context.Context, h *module.Host) error {
			c := newCounts()
			if err := h.Metrics(c.collectors()...); err != nil {
				return err
			}
			if !s.On {
				return mount(h, http.HandlerFunc(off), http.HandlerFunc(off), http.HandlerFunc(off))
			}
			return start(h, &s, c, opened)
		},
	}
}

func start(h *module.Host, s *settings, c counts, opened Opened) error {
	cfg := Config{
		Hub: h.Hub, Reactor: h.Reactor, Publisher: h.Publisher, Mailbox: h.Mailbox, Now: h.Now, Log: h.Log,
		Channels: &channeldb.Store{DB: h.Database, Most: s.Channels, Now: h.Now},
		Origins:  origins(s.Origins, h.PublicURL), Keep: time.Duration(s.KeepDays) * 24 * time.Hour, Beat: time.Duration(s.Beat) * time.Second, PingPause: pingPause,
	}
	if s.Registers > 0 {
		cfg.Registers = limit.NewAddrs(float64(s.Registers)/60, false)
	}
	g := New(cfg)
	g.counts = c
	h.Close("push service", closing, g.Close)
	if s.KeepDays > 0 {
		h.Run("push devices that stay away", patience, g.Sweep)
	}
	opened(cfg.Origins, g.endpoints())
	return errors.Join(
		h.Page(g.ownPage()),
		mount(h, g, http.HandlerFunc(g.Endpoint), http.HandlerFunc(g.Message)),
	)
}

// mount serves devices and senders.
func mount(h *module.Host, devices, endpoints, messages http.Handler) error {
	return errors.Join(h.Mount("/push", devices), h.Mount(endpointPattern, endpoints), h.Mount("/m/{id}", messages))
}

// endpoints serves push endpoints for senders in this process.
func (g *Gateway) endpoints() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(endpointPattern, g.Endpoint)
	return mux
}

// off answers where the push service is off.
func off(w http.ResponseWriter, _ *http.Request) {
	gateway.Fail(w, problem.NotSupported.With("the push service is off; the setting push_service turns it on"))
}

// origins are those of the setting, or that of the public URL, as VAPID names them: in lower case, without the usual port.
func origins(set, publicURL string) (list []string) {
	named := strings.Fields(set)
	if len(named) == 0 {
		named = []string{publicURL}
	}
	for _, u := range named {
		if own := access.OwnOrigin(u); own != "" {
			list = append(list, own)
		}
	}
	return list
}
