package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// TestAFolderOfAFormerReleaseOpensAndGoesOn uses a folder of a stopped server, and one of a killed server, with its logs.
func TestAFolderOfAFormerReleaseOpensAndGoesOn(t *testing.T) {
	for _, how := range []string{"stopped", "killed"} {
		t.Run(how, func(t *testing.T) {
			var m made
			text, err := os.ReadFile(filepath.Join("testdata", how+".json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			r := receive(t)
			dir, logs := open(t, filepath.Join("testdata", how+".tar.gz"), &m, r.addr)
			if killed := how == "killed"; killed != (logs > 0) {
				t.Fatalf("the folder has %d logs", logs)
			}
			// Events have their time in their id, so they are as old as the archive; ten years are the maximum.
			s := blackbox.Start(t, blackbox.In(dir), blackbox.Args("--allow-private-urls", "--min-free", "1MB", "--events-retain", "3650d"))
			w := &upgraded{T: t, server: s, api: s.API(m.Key)}
			w.keysStand(&m)
			w.eventsStand(&m) // before others come
			w.notificationsGoOn(&m)
			w.objectsGoOn(&m)
			w.campaignsGoOn(&m, r)
			w.hookGoesOn(&m, r)
		})
	}
}

func (w *upgraded) keysStand(m *made) {
	w.Helper()
	reader := w.server.API(m.Reader)
	if a, err := reader.Do(w.Context(), http.MethodGet, "/v1/recipients", nil); err != nil || a.Status != http.StatusOK {
		w.Errorf("the reader's key: %v %v", a, err)
	}
	if a, err := reader.Do(w.Context(), http.MethodPost, "/v1/notifications", map[string]any{"to": "ann", "title": "Hi"}); err != nil || a.Status != http.StatusForbidden {
		w.Errorf("the reader's key publishes: %v %v", a, err)
	}
	if err := w.server.API(m.Blue).WantState(w.Context(), "a-1", "ann", "stored"); err != nil {
		w.Errorf("blue's: %v", err)
	}
	var telegram struct{ Configured bool }
	if w.call(http.MethodGet, "/v1/channels/telegram", nil, &telegram); !telegram.Configured {
		w.Error("telegram is not set any more")
	}
}

func (w *upgraded) eventsStand(m *made) {
	w.Helper()
	if got := w.events(func(all []string) bool { return all[len(all)-1] == "stored last" }); len(got) != m.Events || got[0] != "stored a-1" {
		w.Errorf("%d events from %q on, want %d", len(got), got[0], m.Events)
	}
}

func (w *upgraded) notificationsGoOn(m *made) {
	w.Helper()
	ctx := w.Context()
	for _, c := range []struct{ id, to, status string }{
		{"a-1", "ann", "acked"},
		{"a-2", "ann", "acked"},
		{"one", "bob", "acked"},
		{"gone", "cyd", "expired"},
		{"short", "cyd", "expired"}, // its hour ended while no server ran
		{"tomorrow", "dan", "scheduled"},
		{"last", "zoe", "stored"},
	} {
		w.untilState(c.id, c.to, c.status)
	}
	w.duplicate("a-1", "ann", map[string]any{"title": "for ann 1", "data": map[string]any{"n": 1}}) // settled
	w.duplicate("a-4", "ann", map[string]any{"title": "for ann 4", "data": map[string]any{"n": 4}}) // pending

	// Pending notifications come in order with their content, then new ones.
	w.publish("new", "ann", map[string]any{"title": "new"})
	ann := w.connect(blackbox.Hello{App: "red", Recipient: "ann", Device: "phone"})
	seq := uint64(2)
	for _, id := range []string{"a-3", "a-4", "a-5", "shared", "new"} {
		n, err := blackbox.NextNotification(ctx, ann)
		if err != nil {
			w.Fatal(err)
		}
		if seq++; n.ID != id || n.Seq != seq {
			w.Errorf("came %s with seq %d, want %s with %d", n.ID, n.Seq, id, seq)
		}
		if i, ok := strings.CutPrefix(n.ID, "a-"); ok && (n.Title != "for ann "+i || string(n.Data) != fmt.Sprintf(`{"n":%s}`, i)) {
			w.Errorf("%s came as %q with %s", n.ID, n.Title, n.Data)
		}
		if n.ID == "shared" && n.Title != "one body for three" {
			w.Errorf("shared came as %q", n.Title)
		}
		if err := ann.Ack(ctx, n.ID); err != nil {
			w.Fatal(err)
		}
		w.untilState(id, "ann", "acked")
	}
	if seq != m.LastSeq+1 {
		w.Errorf("the newest seq is %d, the folder's was %d", seq, m.LastSeq)
	}

	// Messages that became due while no server ran are sent.
	dan := w.connect(blackbox.Hello{App: "red", Recipient: "dan"})
	came := map[string]bool{}
	for range 2 {
		n, err := blackbox.NextNotification(ctx, dan)
		if err != nil {
			w.Fatal(err)
		}
		came[n.ID] = true
	}
	if !came["soon"] || !came["shared"] {
		w.Errorf("to dan came %v", came)
	}

	// One of bob's devices has acknowledged and does not get it again; the other still must acknowledge.
	tablet := w.connect(blackbox.Hello{App: "red", Recipient: "bob", Device: "tablet"})
	if n, err := blackbox.NextNotification(ctx, tablet); err != nil || n.ID != "both" {
		w.Fatalf("bob's tablet gets %+v %v", n, err)
	}
	if err := tablet.Ack(ctx, "both"); err != nil {
		w.Fatal(err)
	}
	w.untilState("both", "bob", "acked")
}

// duplicate publishes an existing notification again.
func (w *upgraded) duplicate(id, to string, more map[string]any) {
	w.Helper()
	n := map[string]any{"id": id, "to": to, "ttl": "30d"}
	for k, v := range more {
		n[k] = v
	}
	a, err := w.api.Do(w.Context(), http.MethodPost, "/v1/notifications", n)
	if err != nil || a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"duplicate":true`) {
		w.Errorf("publishing %s again: %v %v", id, a, err)
	}
}

func (w *upgraded) objectsGoOn(m *made) {
	w.Helper()
	u := w.unit()
	defer u.CloseNow()
	if f := u.next(); f.Welcome == nil || f.Welcome.Digest != m.Digest {
		w.Fatalf("the welcome is %+v, want digest %s", f.Welcome, m.Digest)
	}
	w.wantVersion(u, "firmware", "8") // was put while the unit was away; it knows the camera's version
	w.call(http.MethodPut, "/v1/objects/region-1/camera", map[string]any{}, nil)
	w.wantVersion(u, "camera", "4")
}

func (w *upgraded) wantVersion(u *upgradedUnit, object, version string) {
	w.Helper()
	for {
		f := u.next()
		if f.Object == nil {
			continue
		}
		if f.Object.Object != object || f.Object.Version != version {
			w.Errorf("told %+v, want version %s of %s", *f.Object, version, object)
		}
		return
	}
}

func (w *upgraded) campaignsGoOn(m *made, r *receiver) {
	w.Helper()
	for _, id := range m.Endpoints {
		var e struct{ Status string }
		if w.call(http.MethodGet, "/v1/endpoints/"+id, nil, &e); e.Status != "active" {
			w.Errorf("endpoint %s is %q", id, e.Status)
		}
	}
	if c := w.campaign(m.Finished); c.State != "completed" || c.Total != few || c.Counts["accepted"] != few {
		w.Errorf("the finished campaign is %+v", c)
	}
	if c := w.campaign(m.Paused); c.State != "paused" || c.Total != manyEndpoints || c.Counts["accepted"] != len(m.Reached) {
		w.Errorf("the paused campaign is %+v, want %d accepted of %d", c, len(m.Reached), manyEndpoints)
	}
	if sent := r.under("/shop/"); len(sent) > 0 {
		w.Errorf("sent while it was paused: %v", sent)
	}
	w.call(http.MethodPost, "/v1/campaigns/"+m.Paused+"/resume", nil, nil)
	w.untilCampaign(m.Paused, "completed", manyEndpoints)
	sent := r.under("/shop/")
	for i := range manyEndpoints {
		path, want := fmt.Sprintf("/shop/%02d", i), 1
		if slices.Contains(m.Reached, path) {
			want = 0 // the former release sent this message
		}
		if sent[path] != want {
			w.Errorf("%s got %d messages, want %d", path, sent[path], want)
		}
	}
	for endpoint, outcome := range w.outcomes(m.Paused) {
		if outcome != "accepted" {
			w.Errorf("the outcome of %s is %s", endpoint, outcome)
		}
	}
}

// hookGoesOn: the receiver gets the events that it had not accepted, and no others.
func (w *upgraded) hookGoesOn(m *made, r *receiver) {
	w.Helper()
	var hook struct {
		State, Cursor string
		Newest        string `json:"newest_event_id"`
	}
	blackbox.Eventually(w, "the hook comes to the end", func() error {
		w.call(http.MethodGet, "/v1/hooks/all", nil, &hook)
		if hook.Cursor != hook.Newest || hook.State != "active" {
			return fmt.Errorf("%+v", hook)
		}
		return nil
	})
	stored := 0
	for _, e := range w.events(func(all []string) bool { return all[len(all)-1] == "stored new" }) {
		if strings.HasPrefix(e, "stored ") {
			stored++
		}
	}
	came := r.ids("/hook")
	if err := count(came, stored-len(m.Hooked)); err != nil {
		w.Errorf("of what the hook was owed: %v", err)
	}
	for _, id := range m.Hooked {
		if slices.Contains(came, id) {
			w.Errorf("the hook's receiver got %s again", id)
		}
	}
}
