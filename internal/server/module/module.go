// Package module lets capabilities join the server. A module brings everything that its capability needs to be served: settings, tables,
// routes, pages, commands, listeners, metrics, background work. Package app has the list of modules.
package module

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/lifecycle"
	"godwit.dev/godwit/internal/server/listen"
	"godwit.dev/godwit/internal/server/metrics"
	"godwit.dev/godwit/internal/store"
)

// Module is a capability that joins the server.
type Module struct {
	Name string // unlike that of any other
	// Settings is a pointer to a struct whose fields have tags like those of config.Config; nil: none. It may implement
	// config.Validator.
	Settings any
	Tables   Tables // zero: none
	// Channels, Sources and Sinks are added to the kinds that apps can set up, the latter two by name.
	Channels []channel.Brought
	Sources  map[string]source.Kind
	Sinks    map[string]sink.Kind
	// Commands are added to the command line. Nil: none.
	Commands func(Program) []*cobra.Command
	// Start starts the module and registers with the host everything that it serves. Its steps end in reverse when the server stops. Nil: there
	// is nothing to start.
	Start func(ctx context.Context, h *Host) error
}

// Tables are the migrations of a module's tables, *.sql, which are applied once each in the order of their names. The tables are in a file
// or schema of their own. A released migration never changes. The module's name need not be set.
type Tables = store.Tables

// Database is the database with a module's tables: one of both fields is nil.
type Database = store.Database

// Program is the command line as a module's commands see it.
type Program interface {
	// Call calls the API of the server that flags, environment and contexts select, and reads the answer into out.
	Call(ctx context.Context, method, path string, in, out any) error
	// Table prints rows under headings.
	Table(headings []string, rows [][]string) error
}

// Command is a command of the command line, as its help shows it.
type Command struct {
	Path, Short, Long, Usage, Examples, Flags string
}

// Page is a page on the web page, with a link in its header.
type Page struct {
	Path, Label string      // below /ui/
	Role        signin.Role // that a person needs
	Show        func(ctx context.Context, app string) (View, error)
}

// Gate admits connections. Gateways without a net.Listener ask it for each new peer.
type Gate interface {
	// Admit reports whether a connection is admitted; the caller calls leave when the connection is closed.
	Admit(addr netip.Addr) (leave func(), ok bool)
	// NoFiles counts a connection that was closed for lack of a file descriptor.
	NoFiles()
}

// Services are the parts of the server that modules may use.
type Services struct {
	Log     *slog.Logger
	Now     func() time.Time
	Node    string // this node's name
	Version string
	Access  *access.Registry
	Mailbox *mailbox.Mailbox
	Publishing
	Hub      *session.Hub
	Objects  *signal.Service
	Topics   *pubsub.Service
	Requests *request.Service
	Bus      *bus.Bus
	Events   event.Log
	Doors
	Draining <-chan struct{} // closed when the server stops or drains
	// Own takes leases on an app's work that only one node may do at a time. Nil: there are no other nodes.
	Own func(what string) lease.Func
	// Databases returns the database with a module's tables.
	Databases func(module string) *Database
	// ReadDraft reads the body of a publish.
	ReadDraft func(body []byte) (*notification.Draft, error)
	// Commands returns the program's commands. Nil: the program that holds the server has none.
	Commands func() []Command
	// ListenAddr is the address to bind for the setting with this key. Empty: off.
	ListenAddr func(key string) (string, error)
}

// Publishing stores notifications.
type Publishing struct {
	Publisher *delivery.Service
	Digests   *digest.Service // nil unless the server has the module that sends digests
}

// Doors are what gateways share: event loops, limits, and the server's address.
type Doors struct {
	PublicURL string                       // where people outside reach this server; empty: unknown
	Data      string                       // folder of the server's files
	Web       func() (http.Handler, error) // everything over HTTP; to be called once all modules have started
	Gate      Gate
	Reactor   *reactor.Reactor // the event loops of all connections
	Hellos    *limit.Addrs     // of session starts
	Publishes *limit.Keys
}

// Set starts modules and holds their registrations.
type Set struct {
	services  *Services
	steps     *lifecycle.Steps
	registry  prometheus.Registerer
	listeners *listen.Set
	owners    map[string]string // by kind and name: the owners of names that only one module can have
	patterns  []pattern         // of routes and mounts
	served    *http.ServeMux    // knows these patterns, and the server's own that are free
	routes    []Route
	mounts    map[string]http.Handler
	pages     []Page
	erasers   []func(ctx context.Context, app string) error

	recipientErasers []func(ctx context.Context, app, recipient string) (int, error)
}

// Route is a call of the API with its module.
type Route struct {
	call.Route
	Module string
}

// pattern is a pattern of net/http with the module that serves it.
type pattern struct{ text, module string }

// NewSet makes a set without modules.
func NewSet(services *Services, steps *lifecycle.Steps, registry prometheus.Registerer, listeners *listen.Set) *Set {
	return &Set{services: services, steps: steps, registry: registry, listeners: listeners, owners: make(map[string]string), served: http.NewServeMux(), mounts: make(map[string]http.Handler)}
}

// Start starts modules in order.
func (s *Set) Start(ctx context.Context, list []Module) error {
	for i := range list {
		m := &list[i]
		if err := s.take("module", m.Name, m.Name); err != nil {
			return err
		}
		if m.Start == nil {
			continue
		}
		if err := m.Start(ctx, &Host{Services: s.services, Database: s.services.Databases(m.Name), set: s, name: m.Name}); err != nil {
			return fmt.Errorf("start module %s: %w", m.Name, err)
		}
	}
	return nil
}

// Free returns an error about the first of the server's own routes that a module has taken.
func (s *Set) Free(owner string, patterns ...string) error {
	for _, p := range patterns {
		if err := s.free(p, owner); err != nil {
			return err
		}
	}
	return nil
}

// Routes returns the routes that modules have registered.
func (s *Set) Routes() []Route { return s.routes }

// Mounts returns the handlers outside the API, by pattern.
func (s *Set) Mounts() map[string]http.Handler { return s.mounts }

// Pages returns the pages that modules have registered.
func (s *Set) Pages() []Page { return s.pages }

// EraseApp deletes the modules' data of a deleted app.
func (s *Set) EraseApp(ctx context.Context, app string) error {
	for _, erase := range s.erasers {
		if err := erase(ctx, app); err != nil {
			return err
		}
	}
	return nil
}

// EraseRecipient deletes the modules' data of an erased recipient, and returns how many things that was.
func (s *Set) EraseRecipient(ctx context.Context, app, recipient string) (n int, err error) {
	for _, erase := range s.recipientErasers {
		erased, err := erase(ctx, app, recipient)
		if n += erased; err != nil {
			return n, err
		}
	}
	return n, nil
}

// PageOwner returns the name of the module with the page at a path.
func (s *Set) PageOwner(path string) string { return s.owners["page "+path] }

// Host is the server as a module sees it.
type Host struct {
	*Services
	Database *Database // the database with the module's tables; nil: it has none
	set      *Set
	name     string // of the module
}

// Route adds calls to the API.
func (h *Host) Route(routes ...call.Route) error {
	for _, rt := range routes {
		if err := h.set.serve(rt.Pattern, h.name); err != nil {
			return err
		}
		h.set.routes = append(h.set.routes, Route{rt, h.name})
	}
	return nil
}

// Mount adds a handler outside the API, such as a gateway's. It gets bare connections, without a deadline, and must check credentials
// itself.
func (h *Host) Mount(pattern string, handler http.Handler) error {
	if err := h.set.serve(pattern, h.name); err != nil {
		return err
	}
	h.set.mounts[pattern] = handler
	return nil
}

// Page adds a page to the web page.
func (h *Host) Page(p Page) error {
	if err := h.set.take("page", p.Path, h.name); err != nil {
		return err
	}
	h.set.pages = append(h.set.pages, p)
	return nil
}

// Listen adds a listener at the address in the setting with its key.
func (h *Host) Listen(l listen.Listener) (err error) {
	if l.Addr, err = h.ListenAddr(l.Key); err != nil {
		return err
	}
	l.Owner = h.name
	return h.set.listeners.Add(l)
}

// Metrics shows metrics to Prometheus.
func (h *Host) Metrics(collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		for _, m := range metrics.Describe(c.Describe) {
			if err := h.set.take("metric", m.Name, h.name); err != nil {
				return err
			}
		}
		if err := h.set.registry.Register(c); err != nil {
			return fmt.Errorf("%s registers a metric of the server's: %w", h.name, err)
		}
	}
	return nil
}

// EraseApp makes the server call erase for each deleted app, again and again until it succeeds. erase must delete the module's data of the
// app.
func (h *Host) EraseApp(erase func(ctx context.Context, app string) error) {
	h.set.erasers = append(h.set.erasers, func(ctx context.Context, app string) error {
		if err := erase(ctx, app); err != nil {
			return fmt.Errorf("erase app %s in module %s: %w", app, h.name, err)
		}
		return nil
	})
}

// EraseRecipient makes the server call erase for each recipient that is erased, after its sessions have got their goodbye. erase must delete the
// module's data of the recipient, and returns how many things that was. The caller gets an error and tries again.
func (h *Host) EraseRecipient(erase func(ctx context.Context, app, recipient string) (int, error)) {
	h.set.recipientErasers = append(h.set.recipientErasers, func(ctx context.Context, app, recipient string) (int, error) {
		n, err := erase(ctx, app, recipient)
		if err != nil {
			return n, fmt.Errorf("erase recipient %s of app %s in module %s: %w", recipient, app, h.name, err)
		}
		return n, nil
	})
}

// Run starts run in a goroutine. A stop ends its context and waits for it for at most patience.
func (h *Host) Run(name string, patience time.Duration, run func(context.Context) error) {
	h.set.steps.AddRun(name, patience, run)
}

// Close makes a stop call end once all parts that were started later have ended.
func (h *Host) Close(name string, patience time.Duration, end func() error) {
	h.set.steps.AddClose(name, patience, end)
}

// take gives a name to an owner unless another has it.
func (s *Set) take(kind, name, owner string) error {
	key := kind + " " + name
	if other, taken := s.owners[key]; taken {
		return fmt.Errorf("%s registers %s %s, which %s has registered", owner, kind, name, other)
	}
	s.owners[key] = owner
	return nil
}

// serve gives a pattern to a module unless another has it.
func (s *Set) serve(text, module string) error {
	if err := s.free(text, module); err != nil {
		return err
	}
	s.patterns = append(s.patterns, pattern{text, module})
	return nil
}

// free returns an error if another module has a pattern that conflicts with this one in net/http, even if written differently.
func (s *Set) free(text, owner string) error {
	if registered(s.served, text) { // there is no need to look at each
		return nil
	}
	for _, other := range s.patterns {
		if clash(text, other.text) {
			return fmt.Errorf("%s registers route %s, which clashes with %s of %s", owner, text, other.text, other.module)
		}
	}
	return nil
}

// clash reports whether two patterns conflict in net/http.
func clash(a, b string) bool {
	mux := http.NewServeMux()
	mux.HandleFunc(a, http.NotFound)
	return !registered(mux, b)
}

// registered registers a pattern, and reports false if it conflicts with another one of the mux, in which case net/http panics.
func registered(mux *http.ServeMux, pattern string) (done bool) {
	defer func() { done = recover() == nil }()
	mux.HandleFunc(pattern, http.NotFound)
	return true
}
