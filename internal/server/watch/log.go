package watch

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kinds of records.
const (
	Refused = "refused" // a call that was wrong or not allowed
	Warning = "warning"
	Failure = "error"
)

// Limits of the log in memory.
const (
	mostRecords = 200 // for each app, and for the server as a whole
	mostApps    = 256 // beyond this number, the app whose last record is the oldest is dropped
	mostText    = 512 // bytes of a text; longer ones are cut
)

// Record is a refusal or a warning of the server.
type Record struct {
	At      time.Time // the last time
	Kind    string
	Text    string
	Details []Detail
	Times   int // in a row
}

// Detail is a further field of a record.
type Detail struct{ Name, Value string }

// book holds the last records of each app; "" has those of the server as a whole.
type book struct {
	mu   *sync.Mutex
	apps map[string]*page
}

type page struct {
	records []Record // a ring
	next    int
}

func newBook() book { return book{new(sync.Mutex), make(map[string]*page)} }

// Fail counts a call to the API that failed because of the server; such calls are logged elsewhere.
func (w *Watch) Fail() { w.failed.Add(1) }

// Refuse records a call to the API that was answered with an error and is not logged. app is empty if the call's app is unknown.
func (w *Watch) Refuse(app, route string, status int, text string) {
	kind := Refused
	if status >= http.StatusInternalServerError {
		kind = Failure
		w.Fail()
	} else {
		w.refused.Add(1)
	}
	w.log.write(app, Record{At: time.Now(), Kind: kind, Text: cut(text), Details: []Detail{{"route", route}, {"status", strconv.Itoa(status)}}})
}

// Log returns an app's records, newest first; if server is true, also those about the whole server.
func (w *Watch) Log(app string, server bool) []Record {
	all := w.log.of(app)
	if server && app != "" {
		all = append(all, w.log.of("")...)
	}
	slices.SortStableFunc(all, func(a, b Record) int { return b.At.Compare(a.At) })
	return all[:min(len(all), mostRecords)]
}

func (b *book) of(app string) []Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.apps[app]; p != nil {
		return slices.Clone(p.records)
	}
	return nil
}

func (b *book) write(app string, r Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.apps[app]
	if p == nil {
		if len(b.apps) >= mostApps {
			b.forget()
		}
		p = new(page)
		b.apps[app] = p
	}
	if last := p.last(); last != nil && last.Kind == r.Kind && last.Text == r.Text && slices.Equal(last.Details, r.Details) {
		last.At = r.At
		last.Times++
		return
	}
	r.Times = 1
	if len(p.records) < mostRecords {
		p.records = append(p.records, r)
		return
	}
	p.records[p.next] = r
	p.next = (p.next + 1) % mostRecords
}

func (p *page) last() *Record {
	if len(p.records) == 0 {
		return nil
	}
	return &p.records[(p.next+len(p.records)-1)%len(p.records)]
}

// forget drops the app whose last record is the oldest.
func (b *book) forget() {
	oldest, at := "", time.Time{}
	for app, p := range b.apps {
		if t := p.last().At; app != "" && (at.IsZero() || t.Before(at)) {
			oldest, at = app, t
		}
	}
	delete(b.apps, oldest)
}

// Handler records warnings and errors, and passes all log records to next.
func (w *Watch) Handler(next slog.Handler) slog.Handler { return &handler{next: next, log: &w.log} }

type handler struct {
	next  slog.Handler
	log   *book
	attrs []slog.Attr // attributes whose names include their groups
	group string
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn || h.next.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		h.note(r)
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h *handler) note(r slog.Record) {
	noted, app := Record{At: r.Time, Kind: Warning, Text: cut(r.Message)}, ""
	if r.Level >= slog.LevelError {
		noted.Kind = Failure
	}
	add := func(a slog.Attr) {
		if a.Key == "app" {
			app = a.Value.String()
			return
		}
		noted.Details = append(noted.Details, Detail{a.Key, shown(a)})
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(func(a slog.Attr) bool {
		a.Key = h.group + a.Key
		add(a)
		return true
	})
	h.log.write(app, noted)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.next, with.attrs = h.next.WithAttrs(attrs), slices.Clip(h.attrs)
	for _, a := range attrs {
		a.Key = h.group + a.Key
		with.attrs = append(with.attrs, a)
	}
	return &with
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	with := *h
	with.next, with.group = h.next.WithGroup(name), h.group+name+"."
	return &with
}

// shown returns an attribute's value for people. No secret is ever logged; as a precaution, values whose names suggest a secret are not
// shown.
func shown(a slog.Attr) string {
	name := strings.ToLower(a.Key)
	for _, secret := range []string{"secret", "password", "token", "authorization", "credential"} {
		if strings.Contains(name, secret) {
			return "***"
		}
	}
	if a.Key == "stack" {
		return "see the server's log"
	}
	return cut(a.Value.Resolve().String())
}

func cut(text string) string {
	if len(text) <= mostText {
		return text
	}
	return strings.ToValidUTF8(text[:mostText], "") + "…"
}
