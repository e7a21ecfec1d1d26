// Package docsite shows the documentation that is part of the program, at /docs: its pages, one for each setting, metric, event, problem
// and command, and a search. The pages are rendered when somebody first asks for one.
package docsite

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/docs"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/problem"
	"godwit.dev/godwit/internal/store/sqlite/textindex"
)

const (
	policy       = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	writeTimeout = 30 * time.Second // of a page, to a slow reader
	maxResults   = 30               // of a search
	maxQuery     = 200              // bytes of a search; the rest is ignored
	caching      = "max-age=300"
)

// Module returns the module.
func Module() module.Module {
	return module.Module{Name: "docs", Start: func(_ context.Context, h *module.Host) error {
		s := &server{log: h.Log, version: h.Version, commands: h.Commands}
		h.Close("documentation", time.Second, s.close)
		return errors.Join(h.Mount("GET "+root, s), h.Mount("GET "+root+"/", s))
	}}
}

// server answers requests below /docs.
type server struct {
	log      *slog.Logger
	version  string
	commands func() []module.Command // nil: none

	mu     sync.Mutex
	shown  *shown
	closed bool
}

// shown is the rendered site with its search.
type shown struct {
	site  *site
	index func() (*textindex.Index, error) // made by the first call
	found []found                          // by a text's place in the index
}

// found is where a text of the index is.
type found struct {
	title, heading, path, anchor string
}

// open returns the site, which the first call renders.
func (s *server) open() (*shown, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the server stops")
	}
	if s.shown == nil {
		made, err := prepare(docs.Files, served, s.commands)
		if err != nil {
			return nil, err
		}
		s.shown = made
		go func() { _, _ = made.index() }() // so that neither the first page nor the first search waits for both
	}
	return s.shown, nil
}

func (s *server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.shown == nil {
		return nil
	}
	index, err := s.shown.index()
	if err != nil {
		return nil // there is nothing to close
	}
	return index.Close()
}

// prepare renders the pages.
func prepare(files fs.FS, link linker, commands func() []module.Command) (*shown, error) {
	besides := []list{problems()}
	if commands != nil {
		besides = append(besides, commandsOf(commands()))
	}
	st, err := build(files, link, besides...)
	if err != nil {
		return nil, err
	}
	v := &shown{site: st}
	var texts []textindex.Text
	for _, p := range st.listed {
		for i := range p.sections {
			sec := &p.sections[i]
			texts = append(texts, textindex.Text{Title: p.title, Heading: sec.heading, Body: sec.text})
			v.found = append(v.found, found{p.title, sec.heading, p.path, sec.anchor})
		}
	}
	for _, e := range st.entries {
		texts = append(texts, textindex.Text{Heading: e.title, Body: e.text}) // after pages with the word in their title
		v.found = append(v.found, found{e.title, e.kind, e.path(), ""})
	}
	v.index = sync.OnceValues(func() (*textindex.Index, error) { return textindex.New(texts) })
	return v, nil
}

// problems is the list of the API's problems.
func problems() list {
	l := list{kind: "problems", title: "Problems"}
	seen := make(map[string]bool) // several types may share a page
	for _, t := range problem.Types() {
		if seen[t.Slug()] {
			continue
		}
		seen[t.Slug()] = true
		text, _ := problem.Page(t.Slug())
		l.add(t.Slug(), t.Slug(), t.Title()+".", t.Title()+".\n\n"+text)
	}
	return l
}

// commandsOf is the list of the program's commands.
func commandsOf(commands []module.Command) list {
	l := list{kind: "commands", title: "Commands"}
	for i := range commands {
		c := &commands[i]
		parts := []part{{"Usage", c.Usage}}
		for _, p := range []part{{"Examples", c.Examples}, {"Flags", c.Flags}} {
			if p.text != "" {
				parts = append(parts, p)
			}
		}
		_, below, _ := strings.Cut(c.Path, " ")
		l.add(strings.ReplaceAll(below, " ", "-"), c.Path, c.Short, c.Long, parts...)
	}
	return l
}

// ServeHTTP shows a page, the result of a search, a picture, or a page's Markdown.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // fails only for a writer without deadlines
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", caching)
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, root), "/")
	if trimmed := strings.TrimSuffix(path, "/"); trimmed != path || r.URL.Path == root+"/" {
		http.Redirect(w, r, served("", trimmed), http.StatusMovedPermanently)
		return
	}
	v, err := s.open()
	if err == nil {
		err = s.answer(w, r, v, path)
	}
	if err != nil {
		s.log.ErrorContext(r.Context(), "cannot show the documentation", "path", path, "error", err)
		h.Set("Cache-Control", "no-store")
		http.Error(w, "The documentation cannot be shown; the server's log says why.", http.StatusInternalServerError)
	}
}

func (s *server) answer(w http.ResponseWriter, r *http.Request, v *shown, path string) error {
	if path == "search" {
		words := r.URL.Query().Get("q")
		words = words[:min(len(words), maxQuery)]
		view, err := v.search(r.Context(), strings.ToValidUTF8(words, ""))
		if err != nil {
			return err
		}
		w.Header().Set("Cache-Control", "no-store")
		return s.write(w, r, v, http.StatusOK, view)
	}
	if view := v.view(path); view != nil {
		return s.write(w, r, v, http.StatusOK, view)
	}
	if path != "" && fs.ValidPath(path) {
		if path == sheet {
			http.ServeFileFS(w, r, assets, sheet)
			return nil
		}
		if info, err := fs.Stat(v.site.files, path); err == nil && !info.IsDir() {
			if strings.HasSuffix(path, ".md") {
				w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
			}
			http.ServeFileFS(w, r, v.site.files, path)
			return nil
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	return s.write(w, r, v, http.StatusNotFound, &view{Title: "No such page", Missing: true})
}
