// Package server is Godwit as a library: a program starts a server in its own process, publishes to it and listens on it without a
// connection, and serves the HTTP API on a server of its own.
//
// A server needs a folder for its data and, unless it is for development, an app (App makes it). It opens the listeners that its settings
// name, and none without them. Nothing that belongs to the process is touched, such as the garbage collector or signals, unless Options say so.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/modules"
)

// Options configure a server.
type Options struct {
	// Data is the folder for data that must not be lost. Only one server at a time may use it.
	Data string
	// Settings are the server's settings by key, such as "retain" or "http_addr", as in its configuration file. Listeners are "off" unless
	// their addresses are set here. Neither files nor the environment are read.
	Settings map[string]string
	// Log receives the server's log. Nil: nothing is logged.
	Log *slog.Logger
	// Modules are the names of the capabilities that join the server, of those that the function Modules lists. Nil: all; empty: none. The
	// server lacks the settings, channels and other parts of all others.
	Modules []string
	// Process lets the server tune the process that it runs in: the garbage collector, and the return of memory to the system. It is for
	// programs that do little else.
	Process bool
}

// version is the version that an embedded server reports.
const version = "embedded"

// Server is a server in this process.
type Server struct {
	cfg     *config.Config
	opts    Options
	modules []module.Module

	mu      sync.Mutex
	running *app.App // nil: it was not started
	host    *module.Host
}

// Modules are the names of the capabilities that Options can choose, in the order in which they start.
func Modules() (names []string) {
	for _, m := range modules.All() {
		names = append(names, m.Name)
	}
	return names
}

// choose returns the modules with these names; nil: all.
func choose(names []string) (list []module.Module, err error) {
	all := modules.All()
	if names == nil {
		return all, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(m module.Module) bool { return m.Name == name }) {
			return nil, fmt.Errorf("there is no module %q; there are %s", name, strings.Join(Modules(), ", "))
		}
	}
	return slices.DeleteFunc(all, func(m module.Module) bool { return !slices.Contains(names, m.Name) }), nil
}

// New checks options and makes a server. It opens nothing.
func New(o Options) (*Server, error) {
	if o.Data == "" {
		return nil, errors.New("make a server: Options.Data names no folder")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o}
	chosen, err := choose(o.Modules)
	if err != nil {
		return nil, fmt.Errorf("make a server: %w", err)
	}
	s.modules = append(chosen, module.Module{Name: "embedding", Start: func(_ context.Context, h *module.Host) error {
		s.host = h
		return nil
	}})
	sections := app.Sections(s.modules)
	values := make(map[string]string)
	for _, f := range config.Known(sections...) {
		if strings.HasSuffix(f.Key, "_addr") {
			values[f.Key] = config.Off
		}
	}
	maps.Copy(values, o.Settings)
	values["data"] = o.Data
	if s.cfg, err = config.FromValues(values, sections...); err != nil {
		return nil, fmt.Errorf("make a server: %w", err)
	}
	return s, nil
}

// Start starts the server; it can be called once. When it returns without an error, everything works and listens. ctx limits only the
// start.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return errors.New("start the server: it has been started")
	}
	running, err := app.Start(ctx, s.cfg, app.Options{Log: s.opts.Log, Version: version, Embedded: true, Process: s.opts.Process, Modules: s.modules})
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	s.running = running
	return nil
}

// Err receives an element if a started server cannot continue, for example because a file was lost. Call Shutdown then, too.
func (s *Server) Err() <-chan error {
	if running := s.begun(); running != nil {
		return running.Failed()
	}
	return nil
}

// Shutdown stops the server: sessions get a goodbye, calls under way are answered, and queued data is stored. It returns when all that is
// done, or with an error once ctx ends. It does nothing if the server was not started.
func (s *Server) Shutdown(ctx context.Context) error {
	running := s.begun()
	if running == nil {
		return nil
	}
	if err := running.Stop(ctx); err != nil {
		return fmt.Errorf("shut the server down: %w", err)
	}
	return nil
}

// begun returns the running server; nil: it was not started.
func (s *Server) begun() *app.App {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// errNotStarted is the error of calls to a server that has not been started.
var errNotStarted = errors.New("the server has not been started")

// Handler returns the handler of the HTTP API, the web page, and clients over WebSocket, server-sent events and polls. Mount it at the root
// of a host: its paths begin with /v1/ and /ui/. Nil: the server was not started.
func (s *Server) Handler() http.Handler {
	if running := s.begun(); running != nil {
		return running.Handler()
	}
	return nil
}

// Addrs returns the addresses of the listeners, by the keys of their settings.
func (s *Server) Addrs() map[string]string {
	if running := s.begun(); running != nil {
		return running.Addrs()
	}
	return nil
}
