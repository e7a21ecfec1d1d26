package httpapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/gateway/pollgate"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
)

// newRealWorld is a world with the real mailbox, events and sessions; clients connect by long-poll.
func newRealWorld(t *testing.T) *world {
	t.Helper()
	log, dir := slog.New(slog.DiscardHandler), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	clock := mailbox.Clock()
	evs := sqlitetest.Events(t)
	store, err := mailboxdb.Open(t.Context(), filepath.Join(dir, "mailbox.db"), mailboxdb.Config{MaxPending: 20, MinFree: 1 << 20, Now: clock})
	must(err)
	box := mailbox.New(mailbox.Config{Store: store, Events: evs, Log: log})
	return newWorld(t, func(c *setup) {
		hub := session.NewHub(session.Config{Store: store, Mailbox: box, Verifier: c.Access, Events: evs, Log: log, Now: clock})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- box.Run(ctx) }()
		posting := gateway.NewPostingClients(c.Access)
		poll := pollgate.New(pollgate.Config{Hub: hub, Posting: posting, Origins: c.Access, Log: log})
		t.Cleanup(func() {
			_ = poll.Close()
			_ = hub.Close()
			cancel()
			<-done
			_ = store.Close()
		})
		c.Publisher, c.Mailbox, c.Presence, c.Events = delivery.New(store, clock), box, hub, evs
		c.Mount = map[string]http.Handler{"/v1/poll": poll, "/v1/frames": posting}
	})
}

// pollJSON is the answer of GET /v1/poll.
type pollJSON struct {
	Session string
	Frames  []map[string]struct {
		ID, Title, Reason string
		IDs               []string
		Seq               int
	}
}

// poll polls until a frame of this name arrives and returns the ids of all frames up to then.
func (w *world) poll(recipient, sess, until string) (session string, ids []string) {
	w.t.Helper()
	for range 20 {
		path := "/v1/poll?app=shop&recipient=" + recipient + "&wait=5s"
		if sess != "" {
			path = "/v1/poll?wait=5s&session=" + sess
		}
		p := decode[pollJSON](w.do(request{method: "GET", path: path, key: w.token("shop", recipient)}).want(http.StatusOK))
		sess = p.Session
		found := false
		for _, f := range p.Frames {
			for name, v := range f {
				ids = append(append(ids, v.ID), v.IDs...)
				found = found || name == until
			}
		}
		if found {
			return sess, slices.DeleteFunc(ids, func(id string) bool { return id == "" })
		}
	}
	w.t.Fatalf("no %s frame came", until)
	return "", nil
}

func (w *world) status(id, to string) string {
	w.t.Helper()
	return decode[statusJSON](w.get("/v1/notifications/" + id + "?to=" + to).want(http.StatusOK)).Status
}

func TestNotificationGoesAllTheWay(t *testing.T) {
	w := newRealWorld(t)
	feed := w.follow("?types=stored,acked,recalled,replaced", nil)
	w.post("/v1/notifications", `{"to":"driver-42","id":"n1","title":"New ride","data":{"fare":120}}`).want(http.StatusCreated)
	w.post("/v1/notifications", `{"to":"driver-42","id":"n1","title":"New ride","data":{"fare":120}}`).want(http.StatusOK)
	w.post("/v1/notifications", `{"to":"driver-42","id":"n1","title":"Other"}`).problem(http.StatusConflict, "id-conflict", "")
	sess, ids := w.poll("driver-42", "", "notification")
	if !slices.Equal(ids, []string{"n1"}) {
		t.Errorf("got %v, want n1 once", ids)
	}
	r := decode[recipientView](w.get("/v1/recipients/driver-42").want(http.StatusOK))
	if !r.Online || r.Pending != 1 || r.Sessions[0].Gateway != "poll" || r.Sessions[0].ID == sess {
		t.Errorf("recipient %+v, want one poll session under a public name", r)
	}
	got := decode[ackedJSON](w.do(request{method: "POST", path: "/v1/acks", body: `{"ids":["n1"]}`, key: w.token("shop", "driver-42")}).want(http.StatusOK))
	if got.Acked != 1 || w.status("n1", "driver-42") != "acked" {
		t.Errorf("acked %d, status %s", got.Acked, w.status("n1", "driver-42"))
	}
	w.post("/v1/notifications", `{"to":"driver-42","id":"n2","collapse_key":"k","title":"Hi"}`).want(http.StatusCreated)
	w.post("/v1/notifications", `{"to":"driver-42","id":"n3","collapse_key":"k","title":"Hi"}`).want(http.StatusCreated)
	w.delete("/v1/notifications/n3").want(http.StatusOK)
	if a, b := w.status("n2", "driver-42"), w.status("n3", "driver-42"); a != "replaced" || b != "recalled" {
		t.Errorf("statuses %s and %s, want replaced and recalled", a, b)
	}
	seen := map[string]bool{}
	for range 6 { // the store decides the order of events within a commit
		e := feed.event()
		seen[e.Type+" "+e.ID] = true
	}
	for _, want := range []string{"stored n1", "acked n1", "stored n2", "stored n3", "replaced n2", "recalled n3"} {
		if !seen[want] {
			t.Errorf("no event %q in %v", want, seen)
		}
	}
	w.delete("/v1/recipients/driver-42").want(http.StatusNoContent)
	w.get("/v1/notifications/n1").problem(http.StatusNotFound, "not-found", "")
	w.get("/readyz").want(http.StatusOK)
}

func TestBatchIsDeliveredAndPagedThroughTheRealStore(t *testing.T) {
	w := newRealWorld(t)
	var lines []string
	for i := range 60 {
		lines = append(lines, fmt.Sprintf(`{"to":"r%d","id":"n%02d","title":"Hi"}`, i%3, i))
	}
	lines = append(lines, `{"to":"r0","id":"over","title":"Hi"}`)
	rs := w.ndjson(lines...).want(http.StatusOK).lines()
	for i, r := range rs[:60] {
		if r.Status != "stored" {
			t.Fatalf("line %d: %+v", i+1, r)
		}
	}
	checkProblem(t, *rs[60].Error, http.StatusTooManyRequests, "mailbox-full", "")
	var ids []string
	for path := "/v1/recipients/r1/notifications?status=stored&limit=7"; path != ""; {
		p := decode[pageOf[statusJSON]](w.get(path).want(http.StatusOK))
		for _, s := range p.Items {
			ids = append(ids, s.ID)
		}
		if path = ""; p.NextCursor != nil {
			path = "/v1/recipients/r1/notifications?status=stored&limit=7&cursor=" + *p.NextCursor
		}
	}
	if len(ids) != 20 || ids[0] != "n58" || ids[19] != "n01" {
		t.Errorf("history %v", ids)
	}
	p := decode[pageOf[recipientView]](w.get("/v1/recipients?limit=2").want(http.StatusOK))
	if len(p.Items) != 2 || p.Items[0].ID != "r0" || p.Items[0].Pending != 20 || p.NextCursor == nil {
		t.Errorf("recipients %+v", p)
	}
}

func TestExpiredAndScheduledShowInStatus(t *testing.T) {
	w := newRealWorld(t)
	feed := w.follow("?types=expired", nil)
	w.post("/v1/notifications", `{"to":"a","id":"gone","expires_at":"`+time.Now().Add(2*time.Second).UTC().Format(time.RFC3339Nano)+`","title":"Hi"}`).want(http.StatusCreated)
	w.post("/v1/notifications", `{"to":"a","id":"later","send_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`","title":"Hi"}`).want(http.StatusCreated)
	if e := feed.event(); e.ID != "gone" {
		t.Errorf("event %+v", e)
	}
	if a, b := w.status("gone", "a"), w.status("later", "a"); a != "expired" || b != "scheduled" {
		t.Errorf("statuses %s and %s, want expired and scheduled", a, b)
	}
	if s := w.get("/v1/stats").body; !strings.Contains(s, `"expired":1`) || !strings.Contains(s, `"scheduled":1`) {
		t.Errorf("stats %s", s)
	}
}

func TestNotificationNoClientCanTakeFailsAndBlocksNothing(t *testing.T) {
	w := newRealWorld(t)
	feed := w.follow("?types=failed", nil)
	w.post("/v1/notifications", `{"to":"driver-42","id":"bad","title":"Hi"}`).want(http.StatusCreated)
	sess := ""
	for n := 1; n <= notification.MaxNacks; n++ {
		sess, _ = w.poll("driver-42", sess, "notification")
		w.do(request{method: "POST", path: "/v1/frames", key: w.token("shop", "driver-42"), body: fmt.Sprintf(
			`{"session":%q,"frames":[{"nack":{"ids":["bad"],"after":"1s","reason":"data: \"<deep>\" %d"}}]}`, sess, n)}).want(http.StatusOK)
	}
	if e := feed.event(); e.Type != "failed" || e.ID != "bad" || e.To != "driver-42" {
		t.Errorf("event %+v", e)
	}
	s := decode[statusJSON](w.get("/v1/notifications/bad?to=driver-42").want(http.StatusOK))
	want := fmt.Sprintf(`nacked %d times: data: "<deep>" %[1]d`, notification.MaxNacks)
	if s.Status != "failed" || s.Channels[0].Status != "failed" || !strings.HasSuffix(*s.Channels[0].Detail, want) {
		t.Errorf("status %s, detail %q, want failed and %q", s.Status, *s.Channels[0].Detail, want)
	}
	w.post("/v1/notifications", `{"to":"driver-42","id":"good","title":"Hi"}`).want(http.StatusCreated)
	if _, ids := w.poll("driver-42", sess, "notification"); !slices.Equal(ids, []string{"good"}) {
		t.Errorf("then came %v, want what is good", ids)
	}
}
