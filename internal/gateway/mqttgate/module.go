package mqttgate

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
	"godwit.dev/godwit/internal/server/listen"
	"godwit.dev/godwit/internal/server/module"
)

// settings are those of MQTT beside the address of its listener.
type settings struct {
	Elsewhere string `key:"mqtt_server_reference" default:"" group:"Listeners" help:"host:port of other nodes or of the balancer, with a space between several; MQTT 5 clients are told to go there when this node drains or stops"`
	QoS2      bool   `key:"mqtt_qos2" default:"false" group:"Listeners" help:"QoS 2 for MQTT: clients of version 5 may publish at it, as those of 3.1.1 may in any case, and filters of topics are granted it"`
}

// Validate implements config.Validator.
func (s *settings) Validate(bad func(key, value, format string, args ...any)) {
	for _, addr := range strings.Fields(s.Elsewhere) {
		host, port, err := net.SplitHostPort(addr)
		if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || n == 0 || host == "" {
			bad("mqtt_server_reference", addr, "is not HOST:PORT, like mqtt.example.org:1883")
		}
	}
}

// closing limits how long the gateway's last publishes may take when the server stops.
const closing = 5 * time.Second

// Module serves MQTT at the address in the setting mqtt_addr, and over WebSocket on the HTTP listener.
func Module() module.Module {
	var s settings
	lite, pg := filterdb.Migrations()
	return module.Module{Name: "mqtt", Settings: &s, Tables: module.Tables{SQLite: lite, Postgres: pg}, Start: func(ctx context.Context, h *module.Host) error {
		stored, err := filterdb.OpenSessions(ctx, filterdb.SessionsConfig{DB: h.Database, Node: h.Node, Several: h.Own != nil, Now: h.Now, Log: h.Log})
		if err != nil {
			return err
		}
		h.Close("sessions of MQTT devices", closing, stored.Close)
		h.EraseApp(stored.EraseApp)
		kept, err := filterdb.Open(ctx, filterdb.Config{DB: h.Database, Mailbox: h.Mailbox, Several: h.Own != nil, Parse: parseFilter, Now: h.Now, Log: h.Log})
		if err != nil {
			return err
		}
		h.Close("filters of MQTT devices", closing, kept.Close)
		h.EraseApp(kept.EraseApp)
		g := New(Config{
			Hub: h.Hub, Reactor: h.Reactor, Access: h.Access, Publisher: h.Publisher, Objects: h.Objects, Topics: h.Topics, Requests: h.Requests, ReadDraft: h.ReadDraft,
			PublishLimit: h.Publishes.Take, Now: h.Now, Version: h.Version, QoS2: s.QoS2, Elsewhere: s.Elsewhere, Filters: kept, Sessions: stored, Waiting: h.Mailbox, Several: h.Own != nil, Log: h.Log,
		})
		h.Close("MQTT", closing, g.Close)
		h.EraseRecipient(g.eraseRecipient)
		if err := h.Metrics(g); err != nil {
			return err
		}
		if err := h.Mount("/mqtt", g); err != nil {
			return err
		}
		return h.Listen(listen.Listener{Key: "mqtt_addr", Protocols: []string{"mqtt"}, Serve: func(ln net.Listener, conf *tls.Config) (listen.Service, error) {
			lim := reactor.Limits{Admit: h.Gate.Admit, NoFiles: h.Gate.NoFiles}
			return listen.Service{
				Name:     "MQTT clients",
				Run:      func(ctx context.Context) error { return g.Serve(ctx, ln, conf, lim) },
				Shutdown: func(context.Context) error { return nil }, // sessions get their goodbye from the hub
			}, nil
		}})
	}}
}
