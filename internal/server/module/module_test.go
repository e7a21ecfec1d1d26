package module_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/lifecycle"
	"godwit.dev/godwit/internal/server/listen"
	"godwit.dev/godwit/internal/server/module"
)

func newSet() *module.Set {
	steps := lifecycle.New(slog.New(slog.DiscardHandler), func(error) {})
	services := &module.Services{Databases: func(string) *module.Database { return nil }, ListenAddr: func(s string) (string, error) {
		if s == "wrong_addr" {
			return "", errors.New("wrong_addr is not an address")
		}
		return "", nil
	}}
	return module.NewSet(services, steps, prometheus.NewRegistry(), listen.New(steps, func(error) {}, time.Second, nil))
}

// registers is a module that registers something when it starts.
func registers(name string, something func(h *module.Host) error) module.Module {
	return module.Module{Name: name, Start: func(_ context.Context, h *module.Host) error { return something(h) }}
}

func route(pattern string) func(*module.Host) error {
	return func(h *module.Host) error { return h.Route(call.Route{Pattern: pattern}) }
}

func listener(key string) func(*module.Host) error {
	return func(h *module.Host) error {
		return h.Listen(listen.Listener{Key: key, Serve: func(net.Listener, *tls.Config) (listen.Service, error) { return listen.Service{}, nil }})
	}
}

func counter(name string) func(*module.Host) error {
	return func(h *module.Host) error {
		return h.Metrics(prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: "Counts."}))
	}
}

func TestTakenNamesAreRefusedWithBothNames(t *testing.T) {
	for what, pair := range map[string][2]func(*module.Host) error{
		"route":                 {route("GET /v1/small"), route("GET /v1/small")},
		"route written another": {route("GET /v1/small/{id}"), route("GET /v1/small/{name}")},
		"routes of one path":    {route("GET /v1/{x}/a"), route("GET /v1/b/{y}")},
		"listener":              {listener("small_addr"), listener("small_addr")},
		"metric":                {counter("small_total"), counter("small_total")},
	} {
		err := newSet().Start(t.Context(), []module.Module{registers("first", pair[0]), registers("second", pair[1])})
		if err == nil || !strings.Contains(err.Error(), "first") || !strings.Contains(err.Error(), "second") {
			t.Errorf("%s: error is %v", what, err)
		}
	}
	nothing := func(*module.Host) error { return nil }
	if err := newSet().Start(t.Context(), []module.Module{registers("same", nothing), registers("same", nothing)}); err == nil || !strings.Contains(err.Error(), "same") {
		t.Errorf("module: error is %v", err)
	}
	if err := newSet().Start(t.Context(), []module.Module{registers("a", listener("wrong_addr"))}); err == nil || !strings.Contains(err.Error(), "wrong_addr") {
		t.Errorf("address: error is %v", err)
	}
}

func TestModuleTakesNoRouteOfTheServer(t *testing.T) {
	s := newSet()
	if err := s.Start(t.Context(), []module.Module{registers("thief", route("GET /v1/hooks/{hook}"))}); err != nil {
		t.Fatal(err)
	}
	if err := s.Free("the server", "GET /v1/hooks", "/ui/", "/"); err != nil {
		t.Errorf("other routes are taken: %v", err)
	}
	if err := s.Free("the server", "GET /v1/hooks/{name}"); err == nil || !strings.Contains(err.Error(), "thief") || !strings.Contains(err.Error(), "the server") {
		t.Errorf("error is %v", err)
	}
}
