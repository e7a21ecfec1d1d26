package audit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access/audit"
)

// shelf is an in-memory store.
type shelf struct {
	entries []audit.Entry
	trims   int
	most    int
	before  time.Time
	since   time.Time
	refuses error
}

func (s *shelf) RenameObject(_ context.Context, app, actions, from, to string) error {
	for i := range s.entries {
		if d := &s.entries[i]; d.App == app && d.Object == from && strings.HasPrefix(d.Action, actions) {
			d.Object = to
		}
	}
	return nil
}

func (s *shelf) AddEntry(_ context.Context, d *audit.Entry) error {
	if s.refuses == nil {
		s.entries = append(s.entries, *d)
	}
	return s.refuses
}

func (s *shelf) Entries(_ context.Context, _ string, f audit.Filter, _ int) ([]audit.Entry, error) {
	s.since = f.Since
	return s.entries, s.refuses
}

func (s *shelf) TrimEntries(_ context.Context, _ string, before time.Time, most int) error {
	s.trims++
	s.before, s.most = before, most
	return nil
}

func newLog(t *testing.T, s *shelf) (l *audit.Log, now *time.Time, said *bytes.Buffer) {
	t.Helper()
	at := time.UnixMilli(1_700_000_000_000)
	now, said = &at, new(bytes.Buffer)
	l = audit.New(s, func() time.Time { return *now }, slog.New(slog.NewTextHandler(said, nil)))
	return l, now, said
}

func entry(outcome audit.Outcome) audit.Entry {
	return audit.Entry{App: "shop", By: "k1", Way: audit.API, Address: "192.0.2.1", Action: "key.delete", Object: "k2", Outcome: outcome}
}

func TestFailedEntryIsCountedAndLogged(t *testing.T) {
	s := &shelf{refuses: errors.New("the disk is full")}
	l, _, said := newLog(t, s)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(l)
	l.Note(t.Context(), entry(audit.Done))
	for _, want := range []string{"key.delete", "k1", "k2", "192.0.2.1", "the disk is full", "done"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the log lacks %q: %s", want, said)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if got := f.GetMetric()[0].GetCounter().GetValue(); f.GetName() == "godwit_audit_lost_total" && got != 1 {
			t.Errorf("%v are counted as lost", got)
		}
	}
	if len(families) != 2 {
		t.Errorf("metrics: %v", families)
	}
}

func TestEntryIsWrittenThoughTheCallerLeft(t *testing.T) {
	s := &shelf{}
	l, _, _ := newLog(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.Note(ctx, entry(audit.Done))
	if len(s.entries) != 1 {
		t.Errorf("written: %+v", s.entries)
	}
}

func TestRepeatedRefusalIsAuditedOnceAMinute(t *testing.T) {
	s := &shelf{}
	l, now, _ := newLog(t, s)
	for range 100 {
		l.Note(t.Context(), entry(audit.Refused))
	}
	other := entry(audit.Refused)
	other.By = "k9"
	l.Note(t.Context(), other)
	*now = now.Add(time.Minute)
	l.Note(t.Context(), entry(audit.Refused))
	if len(s.entries) != 3 {
		t.Errorf("%d are remembered", len(s.entries))
	}
	for range 5 {
		l.Note(t.Context(), entry(audit.Done))
	}
	if len(s.entries) != 8 {
		t.Errorf("of 5 that were done, %d are remembered", len(s.entries)-3)
	}
}

func TestOldEntriesAreTrimmed(t *testing.T) {
	s := &shelf{}
	l, now, _ := newLog(t, s)
	for range 600 {
		l.Note(t.Context(), entry(audit.Done))
	}
	if s.trims != 3 || s.most != audit.MaxRows || !s.before.Equal(now.Add(-audit.MaxAge)) {
		t.Errorf("after 600 deeds it was trimmed %d times, to %d rows and %s", s.trims, s.most, s.before)
	}
	if _, err := l.List(t.Context(), "shop", audit.Filter{}, 1); err != nil || !s.since.Equal(now.Add(-audit.MaxAge)) {
		t.Errorf("lists since %s, %v", s.since, err)
	}
}

func TestTextsAreCutAndCleaned(t *testing.T) {
	s := &shelf{}
	l, _, _ := newLog(t, s)
	d := entry(audit.Done)
	d.Object, d.By = "a\nb"+strings.Repeat("x", 500), "\x1b[31mroot"
	l.Note(t.Context(), d)
	if got := s.entries[0]; len(got.Object) != 200 || strings.ContainsAny(got.Object+got.By, "\n\x1b") {
		t.Errorf("%+v", got)
	}
}

func TestActionIsNamedByItsRoute(t *testing.T) {
	for _, c := range []struct{ pattern, path, name, action, object string }{
		{"POST /ui/campaigns/{id}/{action}", "/ui/campaigns/01J/start", "campaign.{action}", "campaign.start", "01J"},
		{"DELETE /v1/objects/{group}/{object}", "/v1/objects/eu/camera", "object.delete", "object.delete", "eu/camera"},
		{"POST /v1/keys", "/v1/keys", "key.create", "key.create", ""},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc(c.pattern, func(_ http.ResponseWriter, r *http.Request) {
			if action, object := audit.Of(r, c.pattern, c.name); action != c.action || object != c.object {
				t.Errorf("%s: %q to %q", c.path, action, object)
			}
		})
		method, _, _ := strings.Cut(c.pattern, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		mux.ServeHTTP(nil, r)
	}
}
