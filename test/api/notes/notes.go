// Package notes is a small capability that joins a server as a module: it stores lines of text for apps. It has one of everything that a
// module can add.
package notes

import (
	"bufio"
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/listen"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/problem"
)

//go:embed sqlite postgres
var migrations embed.FS

// Settings are its settings.
type Settings struct {
	Addr string `key:"notes_addr" default:"off" group:"Notes" help:"address of the listener for notes, one a line, or off"`
	Most int    `key:"notes_most" default:"10" min:"1" max:"100" group:"Notes" help:"most notes of an app"`
}

// Validate implements config.Validator.
func (s *Settings) Validate(bad func(key, value, format string, args ...any)) {
	if s.Most == 13 {
		bad("notes_most", strconv.Itoa(s.Most), "brings bad luck")
	}
}

// Module is the module.
func Module() module.Module {
	settings := &Settings{}
	sqlite, _ := fs.Sub(migrations, "sqlite")     // the folder is there
	postgres, _ := fs.Sub(migrations, "postgres") // the same
	return module.Module{
		Name: "notes", Settings: settings, Tables: module.Tables{SQLite: sqlite, Postgres: postgres}, Commands: commands,
		Start: func(_ context.Context, h *module.Host) error { return start(h, settings) },
	}
}

// service keeps notes.
type service struct {
	store store
	most  int
	kept  prometheus.Counter
}

func start(h *module.Host, settings *Settings) error {
	s := &service{
		store: storeOf(h.Database), most: settings.Most,
		kept: prometheus.NewCounter(prometheus.CounterOpts{Name: "godwit_notes_total", Help: "Notes that were kept since start."}),
	}
	h.EraseApp(s.store.eraseApp)
	h.Run("notes", time.Second, func(ctx context.Context) error { <-ctx.Done(); return nil })
	return errors.Join(
		h.Metrics(s.kept),
		h.Route(
			call.Route{Pattern: "GET /v1/notes", Role: access.Read, Serve: s.list},
			call.Route{Pattern: "POST /v1/notes", Role: access.Publish, Action: "note.keep", Serve: s.post},
		),
		h.Mount("GET /notes", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "Notes are kept.\n") })),
		h.Page(module.Page{Path: "/ui/notes", Label: "Notes", Role: signin.View, Show: s.page}),
		h.Listen(listen.Listener{Key: "notes_addr", Serve: func(ln net.Listener, _ *tls.Config) (listen.Service, error) {
			return s.serve(h, ln), nil
		}}),
	)
}

// errFull reports that an app has reached its limit of notes.
var errFull = errors.New("there are as many notes as an app may have")

func (s *service) keep(ctx context.Context, app, text string) error {
	have, err := s.store.list(ctx, app)
	if err != nil {
		return err
	}
	if len(have) >= s.most {
		return errFull
	}
	if err := s.store.add(ctx, app, text); err != nil {
		return err
	}
	s.kept.Inc()
	return nil
}

type noteJSON struct {
	Text string `json:"text"`
}

func (s *service) list(c *call.Call) error {
	all, err := s.store.list(c.Ctx, c.Key.App)
	if err != nil {
		return err
	}
	l := call.NewList[noteJSON](len(all), "")
	for _, text := range all {
		l.Items = append(l.Items, noteJSON{text})
	}
	return c.Value(http.StatusOK, l)
}

func (s *service) post(c *call.Call) error {
	text := c.R.FormValue("text")
	err := s.keep(c.Ctx, c.Key.App, text)
	if errors.Is(err, errFull) {
		return problem.RateLimited.With(err.Error())
	}
	if err != nil {
		return err
	}
	return c.Value(http.StatusCreated, noteJSON{text})
}

func (s *service) page(ctx context.Context, app string) (module.View, error) {
	all, err := s.store.list(ctx, app)
	v := module.View{Text: "What the app keeps in mind.", Headings: []string{"Note"}}
	for _, text := range all {
		v.Rows = append(v.Rows, []string{text})
	}
	return v, err
}

// serve stores each line from a connection for the app demo, and answers ok or the reason of a failure.
func (s *service) serve(h *module.Host, ln net.Listener) listen.Service {
	var conns sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	return listen.Service{
		Name: "connections of notes",
		Run: func(context.Context) error {
			for {
				c, err := ln.Accept()
				if err != nil {
					return err
				}
				leave, ok := h.Gate.Admit(c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
				if !ok {
					_ = c.Close()
					continue
				}
				conns.Go(func() {
					defer leave()
					defer context.AfterFunc(ctx, func() { _ = c.Close() })()
					defer c.Close()
					s.lines(ctx, c)
				})
			}
		},
		Shutdown: func(context.Context) error {
			cancel()
			conns.Wait()
			return nil
		},
	}
}

func (s *service) lines(ctx context.Context, c net.Conn) {
	for in := bufio.NewScanner(c); in.Scan(); {
		answer := "ok\n"
		if err := s.keep(ctx, access.DevApp, in.Text()); err != nil {
			answer = err.Error() + "\n"
		}
		if _, err := c.Write([]byte(answer)); err != nil {
			return
		}
	}
}

// commands are godwit notes.
func commands(p module.Program) []*cobra.Command {
	return []*cobra.Command{{
		Use: "notes", Short: "List the notes of an app", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answer struct{ Items []noteJSON }
			if err := p.Call(cmd.Context(), http.MethodGet, "/v1/notes", nil, &answer); err != nil {
				return err
			}
			var rows [][]string
			for _, n := range answer.Items {
				rows = append(rows, []string{n.Text})
			}
			return p.Table([]string{"NOTE"}, rows)
		},
	}}
}
