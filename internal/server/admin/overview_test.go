package admin_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/admin"
	"godwit.dev/godwit/internal/server/watch"
)

// watched returns a server whose figures were read twice, five seconds apart.
func watched() *watch.Server {
	w, at := watch.New(), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	w.Read(at, watch.Totals{})
	w.Read(at.Add(watch.Every), watch.Totals{Stored: 6_172, Sessions: 1_234_567, Push: map[watch.Ended]uint64{{Channel: hostile, Outcome: "failed"}: 3}})
	s := watch.Alone(w, hostile)
	s.Advise = func(context.Context, string) []watch.Advice {
		return []watch.Advice{{About: "hook", Grave: true, Said: "The hook %s is %s: %s.", Args: []any{"crm", watch.Word("failing"), hostile}, Hint: "Mend it."}}
	}
	return s
}

func TestTheOverviewSaysHowTheServerIs(t *testing.T) {
	b := newWorld(t, func(c *admin.Config) { c.Watch = watched() }).as(3)
	_, page := b.get("/ui/")
	checkHarmless(t, "/ui/", page)
	wants(t, page, "The hook crm is failing: ", "Mend it.", `<data value="1234567">1,234,567</data>`, `<data value="1234">`, "&lt;hostile", `datetime="2026-05-01T12:00:00Z"`)
}

func TestHealthyServerSaysSo(t *testing.T) {
	_, page := newWorld(t).signedIn().get("/ui/")
	wants(t, page, "Nothing needs attention", "Nothing is known yet", "None was sent")
}

// events opens a page's event stream.
func (b *browser) events(ctx context.Context, path string) *http.Response {
	b.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.srv.URL+path, nil)
	must(b.T, err)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := b.client.Do(req)
	must(b.T, err)
	b.Cleanup(func() { resp.Body.Close() })
	return resp
}

// next reads an event.
func next(t *testing.T, r *bufio.Reader) (name, data string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		must(t, err)
		line = strings.TrimSuffix(line, "\n")
		switch field, value, _ := strings.Cut(line, ": "); {
		case line == "":
			return name, data
		case field == "event":
			name = value
		case field == "data":
			data += value + "\n"
		default:
			t.Fatalf("a line of no event: %q", line)
		}
	}
}

func TestTheOverviewGoesOnUntilThePersonHasSignedOut(t *testing.T) {
	server := watched()
	b := newWorld(t, func(c *admin.Config) { c.Watch = server }).as(1)
	r := bufio.NewReader(b.events(t.Context(), "/ui/overview/events").Body)
	for _, want := range []string{"history", "figures", "advice"} {
		name, data := next(t, r)
		if checkHarmless(t, name, data); name != want {
			t.Fatalf("event %s, want %s", name, want)
		}
	}
	server.Read(time.Date(2026, 5, 1, 12, 0, 10, 0, time.UTC), watch.Totals{Stored: 6_272})
	if name, data := next(t, r); name != "points" || !strings.Contains(data, `"published":[20]`) || strings.Contains(data, "1234") {
		t.Errorf("event %s: %s", name, data)
	}
	if name, _ := next(t, r); name != "figures" {
		t.Errorf("event %s, want figures; the advice is as it was", name)
	}
	b.post("/ui/sign-out", nil)
	server.Read(time.Date(2026, 5, 1, 12, 0, 15, 0, time.UTC), watch.Totals{})
	if name, _ := next(t, r); name != "gone" {
		t.Errorf("event %s after signing out", name)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("the stream goes on after signing out")
	}
}

func TestTheOverviewsStreamEndsWithTheServer(t *testing.T) {
	draining := make(chan struct{})
	b := newWorld(t, func(c *admin.Config) { c.Watch, c.Draining = watched(), draining }).as(1)
	r := bufio.NewReader(b.events(t.Context(), "/ui/overview/events").Body)
	next(t, r)
	close(draining)
	for {
		if _, err := r.ReadString('\n'); err != nil {
			return
		}
	}
}

func TestAStreamIsForScriptsAlone(t *testing.T) {
	if status, _ := newWorld(t).signedIn().get("/ui/overview/events"); status != http.StatusNotAcceptable {
		t.Errorf("answered %d", status)
	}
}
