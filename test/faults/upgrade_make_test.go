package faults

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/test/blackbox"
)

var former = flag.String("former", "", "binary of a release that makes the committed folders anew")

// made describes a committed folder's content for the test, beyond what its name says.
type made struct {
	Version   string    `json:"version"` // version of the release that made the folder
	Commit    string    `json:"commit"`  // commit of that release, if known
	At        time.Time `json:"at"`
	Receiver  string    `json:"receiver"` // address of its hook and endpoints
	Key       string    `json:"key"`      // of app red
	Reader    string    `json:"reader"`   // another key, which may only read
	Blue      string    `json:"blue"`     // key of app blue
	Finished  string    `json:"finished"`
	Paused    string    `json:"paused"`
	Reached   []string  `json:"reached"` // paths of the paused campaign's endpoints that have received its message
	Endpoints []string  `json:"endpoints"`
	Digest    string    `json:"digest"` // of unit-1's registrations
	LastSeq   uint64    `json:"last_seq"`
	Events    int       `json:"events"`
	Hooked    []string  `json:"hooked"` // ids of the events that the hook's receiver accepted
}

// TestMakeFolders creates the committed folders again: make upgrade-data FORMER=path/of/a/release.
func TestMakeFolders(t *testing.T) {
	if *former == "" {
		t.Skip("-former names no binary")
	}
	for _, how := range []string{"stopped", "killed"} {
		t.Run(how, func(t *testing.T) { makeFolder(t, how) })
	}
}

func makeFolder(t *testing.T, how string) {
	r := receive(t)
	s := blackbox.New(t, blackbox.Program(*former), blackbox.Args("--allow-private-urls", "--min-free", "1MB", "--ballast", "64KB"))
	m := &made{At: time.Now().UTC().Truncate(time.Millisecond), Receiver: r.addr, Commit: os.Getenv("FORMER_COMMIT")}
	version, err := s.Run("version")
	if err != nil {
		t.Fatal(err)
	}
	m.Version = strings.TrimSpace(version)
	m.Key, m.Blue = s.CreateApp(t, "red"), s.CreateApp(t, "blue")
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	w := &upgraded{T: t, server: s, api: s.API(m.Key)}
	var key struct{ Key string }
	w.call(http.MethodPost, "/v1/keys", map[string]any{"name": "reader", "roles": []string{"read"}}, &key)
	m.Reader = key.Key
	w.call(http.MethodPut, "/v1/hooks/all", map[string]any{"url": "http://" + r.addr + "/hook", "types": []string{"stored"}}, nil)
	w.call(http.MethodPut, "/v1/channels/webhook", map[string]any{"enabled": true}, nil)
	w.call(http.MethodPut, "/v1/channels/telegram", map[string]any{"token": "123456789:AAExampleExampleExampleExample1234567"}, nil)

	makeNotifications(w, r, m)
	makeObjects(w, m)
	makeCampaigns(w, r, m)
	m.Hooked = r.ids("/hook")
	w.call(http.MethodPost, "/v1/notifications", map[string]any{"to": "zoe", "id": "last", "ttl": "30d", "title": "Hi"}, nil)
	if err := s.API(m.Blue).Publish(t.Context(), map[string]any{"to": "ann", "id": "a-1", "title": "blue", "ttl": "30d"}); err != nil {
		t.Fatal(err)
	}
	m.Events = len(w.events(func(ids []string) bool { return ids[len(ids)-1] == "stored last" }))
	if how == "killed" {
		s.Kill()
	} else if code := s.Stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	pack(t, s.Dir, filepath.Join("testdata", how+".tar.gz"))
	text, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", how+".json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// makeNotifications creates notifications in every state.
func makeNotifications(w *upgraded, r *receiver, m *made) {
	ctx := w.Context()
	for i := 1; i <= 5; i++ {
		w.publish(fmt.Sprintf("a-%d", i), "ann", map[string]any{"title": fmt.Sprintf("for ann %d", i), "data": map[string]any{"n": i}})
	}
	blackbox.Eventually(w, "the hook takes events", func() error { return count(r.ids("/hook"), 5) })
	r.hold("/hook") // later events stay pending for the hook

	ann := w.connect(blackbox.Hello{App: "red", Recipient: "ann", Device: "phone"})
	for range 5 {
		if _, err := blackbox.NextNotification(ctx, ann); err != nil {
			w.Fatal(err)
		}
	}
	if err := ann.Ack(ctx, "a-1", "a-2"); err != nil {
		w.Fatal(err)
	}
	w.untilState("a-1", "ann", "acked")
	w.untilState("a-2", "ann", "acked")
	ann.Cut()

	// Both of bob's devices must acknowledge; one has.
	phone := w.connect(blackbox.Hello{App: "red", Recipient: "bob", Device: "phone"})
	tablet := w.connect(blackbox.Hello{App: "red", Recipient: "bob", Device: "tablet"})
	w.publish("both", "bob", map[string]any{"title": "both", "ack": "all"})
	w.publish("one", "bob", map[string]any{"title": "one"})
	for range 2 {
		if _, err := blackbox.NextNotification(ctx, phone); err != nil {
			w.Fatal(err)
		}
	}
	if err := phone.Ack(ctx, "both", "one"); err != nil {
		w.Fatal(err)
	}
	w.untilState("one", "bob", "acked") // the frame's other id is settled by then, too
	tablet.Cut()
	phone.Cut()

	w.publish("gone", "cyd", map[string]any{"title": "gone", "ttl": "1s"})
	w.untilState("gone", "cyd", "expired")
	w.publish("short", "cyd", map[string]any{"title": "short", "ttl": "1h"})
	w.publish("soon", "dan", map[string]any{"send_at": m.At.Add(time.Hour), "title": "in an hour"})
	w.publish("tomorrow", "dan", map[string]any{"title": "tomorrow", "send_at": m.At.Add(24 * time.Hour)})
	w.publish("shared", []string{"ann", "dan", "eve"}, map[string]any{"title": "one body for three"})
	m.LastSeq = 6
}

// makeObjects creates a unit that is registered for two objects and knows one version of each.
func makeObjects(w *upgraded, m *made) {
	w.call(http.MethodPut, "/v1/objects/region-1/firmware", map[string]any{"version": "7", "payload": map[string]any{"url": "x"}}, nil)
	w.call(http.MethodPut, "/v1/objects/region-1/camera", map[string]any{"version": "3"}, nil)
	u := w.unit()
	defer u.CloseNow()
	u.send(`{"register":{"objects":["firmware","camera"]}}`)
	versions := map[string]string{}
	for len(versions) < 2 || m.Digest == "" {
		f := u.next()
		switch {
		case f.Object != nil:
			versions[f.Object.Object] = f.Object.Version
			u.send(fmt.Sprintf(`{"object_ack":{"object":%q,"version":%q}}`, f.Object.Object, f.Object.Version))
		case f.Registered != nil:
			m.Digest = f.Registered.Digest
		}
	}
	u.send(`{"ping":{}}`)
	for u.next().Pong == nil { // the server has handled the earlier frames by then
	}
	u.CloseNow()
	w.call(http.MethodPut, "/v1/objects/region-1/firmware", map[string]any{"version": "8"}, nil)
}

// makeCampaigns creates endpoints, a completed campaign and one paused half way.
func makeCampaigns(w *upgraded, r *receiver, m *made) {
	provider := pushserver.Start(pushserver.Options{})
	defer provider.Close()
	_, subscription := provider.Subscribe(pushserver.Behaviour{})
	register := func(e map[string]any) {
		var made struct{ ID string }
		w.call(http.MethodPost, "/v1/endpoints", e, &made)
		m.Endpoints = append(m.Endpoints, made.ID)
	}
	register(map[string]any{"channel": "webpush", "address": subscription, "tags": []string{"web"}})
	register(map[string]any{"channel": "telegram", "recipient": "ann", "address": map[string]any{"chat_id": 4242}, "attributes": map[string]any{"city": "Oslo", "age": 42}, "timezone": "Europe/Oslo"})
	for i := range manyEndpoints {
		tags := []string{"all"}
		if i < few {
			tags = append(tags, "few")
		}
		register(map[string]any{"channel": "webhook", "recipient": fmt.Sprintf("shop-%02d", i), "address": map[string]any{"url": fmt.Sprintf("http://%s/shop/%02d", r.addr, i)}, "tags": tags})
	}
	m.Finished = w.start(map[string]any{"name": "finished", "content": map[string]any{"title": "To a few"}, "audience": map[string]any{"tags_any": []string{"few"}}})
	w.untilCampaign(m.Finished, "completed", few)
	m.Paused = w.start(map[string]any{"name": "paused", "content": map[string]any{"title": "To all"}, "audience": map[string]any{"tags_any": []string{"all"}}, "rate": "5/s", "ttl": "28d"})
	w.untilCampaign(m.Paused, "", 5)
	w.call(http.MethodPost, "/v1/campaigns/"+m.Paused+"/pause", nil, nil)
	blackbox.Eventually(w, "nothing is being sent", func() error {
		if c := w.campaign(m.Paused); c.Sending > 0 || c.State != "paused" {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	for path, n := range r.under("/shop/") {
		var i int
		if _, err := fmt.Sscanf(path, "/shop/%d", &i); err != nil {
			w.Fatal(err)
		}
		if i < few {
			n-- // the finished campaign's
		}
		if n > 0 {
			m.Reached = append(m.Reached, path)
		}
	}
}

// The endpoints of the campaigns.
const (
	manyEndpoints = 30
	few           = 3
)
