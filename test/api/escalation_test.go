package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// receiver accepts webhooks and records them.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	posts  []posted
	status int // answered; 0: 204
}

// posted is one received webhook: its type, its recipient (the path), its notification, and the id of the message.
type posted struct {
	kind, to, note, id string
	data               pushed
}

// pushed is the content of a message.
type pushed struct {
	GodwitID                              string `json:"godwit_id"`
	Ack                                   string `json:"godwit_ack"`
	Settle                                string `json:"godwit_settle"`
	To, Recipient, Endpoint, Title, Track string
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		var e struct {
			Type string
			Data pushed
		}
		_ = json.Unmarshal(body, &e)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.posts = append(r.posts, posted{e.Type, strings.TrimPrefix(q.URL.Path, "/"), e.Data.GodwitID, q.Header.Get("Webhook-Id"), e.Data})
		if r.status != 0 {
			w.WriteHeader(r.status)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// log returns everything received, in order.
func (r *receiver) log() []posted {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.posts)
}

// got lists the ids of the messages received for a notification.
func (r *receiver) got(kind, note string) (ids []string) {
	for _, p := range r.log() {
		if p.kind == kind && p.note == note {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// wait waits until a webhook was received for a notification.
func (r *receiver) wait(t *testing.T, kind, note string) {
	t.Helper()
	blackbox.Eventually(t, kind+" for "+note, func() error {
		if n := len(r.got(kind, note)); n == 0 {
			return fmt.Errorf("nothing came")
		}
		return nil
	})
}

const (
	message  = "notification"
	withdraw = "notification.recall"
)

type world struct {
	*testing.T
	server *blackbox.Server
	api    *blackbox.API
}

func begin(t *testing.T) *world {
	t.Helper()
	s := blackbox.Start(t, inFiles(t).serve()...)
	w := &world{T: t, server: s, api: s.API()}
	w.call(http.MethodPut, "/v1/channels/webhook", map[string]any{})
	return w
}

func (w *world) call(method, path string, body any) *blackbox.Answer {
	w.Helper()
	return w.api.Call(w, method, path, body, nil)
}

// reach registers a receiver as a recipient's endpoint.
func (w *world) reach(recipient string, r *receiver) {
	w.Helper()
	w.call(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "webhook", "recipient": recipient, "address": map[string]string{"url": r.URL + "/" + recipient}})
}

func (w *world) publish(id, to string, after ...string) {
	w.Helper()
	steps := []map[string]string{{"channel": "live"}}
	for _, a := range after {
		steps = append(steps, map[string]string{"channel": "webhook", "after": a})
	}
	w.call(http.MethodPost, "/v1/notifications", map[string]any{"to": to, "id": id, "title": "T", "escalate": steps})
}

func (w *world) online(recipient string) blackbox.Link {
	w.Helper()
	return w.server.Connect(w, "ws", blackbox.Hello{App: "demo", Recipient: recipient})
}

// ack acknowledges over a connection and waits until the acknowledgement is stored.
func (w *world) ack(l blackbox.Link, id, to string) {
	w.Helper()
	if err := l.Ack(w.Context(), id); err != nil {
		w.Fatal(err)
	}
	blackbox.Eventually(w, "the ack of "+id, func() error { return w.api.WantState(w.Context(), id, to, "acked") })
}

// latency returns the time between a notification's due time and its acknowledgement, by the server's clock.
func (w *world) latency(id, to string) time.Duration {
	w.Helper()
	var s struct {
		LatencyMS int64 `json:"latency_ms"`
	}
	if err := w.call(http.MethodGet, "/v1/notifications/"+id+"?to="+to, nil).JSON(&s); err != nil {
		w.Fatal(err)
	}
	return time.Duration(s.LatencyMS) * time.Millisecond
}

// wantChannels waits until a copy's channels have these states, as "channel status" each.
func (w *world) wantChannels(id, to string, want ...string) {
	w.Helper()
	blackbox.Eventually(w, fmt.Sprintf("%s of %s as %q", id, to, want), func() error {
		var s struct {
			Channels []struct{ Channel, Status string }
		}
		if err := w.call(http.MethodGet, "/v1/notifications/"+id+"?to="+to, nil).JSON(&s); err != nil {
			return err
		}
		var got []string
		for _, c := range s.Channels {
			got = append(got, c.Channel+" "+c.Status)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("channels %q", got)
		}
		return nil
	})
}

func TestAwayRecipientIsPushedAtOnceAndAckWithdrawsThePush(t *testing.T) {
	w, r := begin(t), receive(t)
	w.reach("rider", r)
	w.publish("ride", "rider", "22h", "23h")
	r.wait(t, message, "ride")
	w.wantChannels("ride", "rider", "live stored", "webhook accepted", "webhook waiting")
	w.publish("other", "rider", "23h")
	r.wait(t, message, "other")
	if n := r.got(withdraw, "ride"); len(n) != 0 {
		t.Fatalf("it was withdrawn although nobody acknowledged it")
	}
	w.ack(w.online("rider"), "ride", "rider")
	r.wait(t, withdraw, "ride")
	w.wantChannels("ride", "rider", "live acked", "webhook withdrawn")
	if n := len(r.got(message, "ride")); n != 1 {
		t.Errorf("the message came %d times", n)
	}
	if n := r.got(withdraw, "other"); len(n) != 0 {
		t.Error("what nobody acknowledged was withdrawn")
	}
}

func TestOnlineRecipientIsPushedOnlyIfSilentAndNeverAfterAck(t *testing.T) {
	blackbox.Long(t)
	w, r := begin(t), receive(t)
	w.reach("rider", r)
	l := w.online("rider")
	acked := ""
	for i := 0; acked == ""; i++ { // repeated, since on a slow machine the step may be due before the ack arrives
		id := fmt.Sprint("acked-", i)
		w.publish(id, "rider", "2s", "3s")
		if w.ack(l, id, "rider"); w.latency(id, "rider") < 2*time.Second {
			acked = id
		}
	}
	w.publish("silent", "rider", "1s", "4s")
	r.wait(t, message, "silent")
	blackbox.Eventually(t, "the second step of silent", func() error { // later than both steps of the acknowledged one
		if n := len(r.got(message, "silent")); n != 2 {
			return fmt.Errorf("%d messages", n)
		}
		return nil
	})
	ids := r.got(message, "silent")
	if ids[0] == ids[1] {
		t.Error("two steps have one message id")
	}
	if n := len(r.got(message, acked)); n != 0 {
		t.Errorf("%d messages came for what was acknowledged before they were due", n)
	}
}

func TestAStepWithoutAnEndpointPassesOnAtOnce(t *testing.T) {
	w, r := begin(t), receive(t)
	w.publish("ride", "nobody", "1h") // skipped: no endpoint
	w.reach("rider", r)
	w.call(http.MethodPost, "/v1/notifications", map[string]any{"to": "rider", "id": "chain", "title": "T", "escalate": []map[string]string{
		{"channel": "webpush", "after": "1h"}, {"channel": "webhook", "after": "2h"},
	}})
	r.wait(t, message, "chain")
	w.wantChannels("chain", "rider", "live stored", "webpush skipped", "webhook accepted")
}

func TestNoStepIsLostWhenTheServerIsKilled(t *testing.T) {
	blackbox.Long(t)
	w, r := begin(t), receive(t)
	const riders, kills = 40, 5
	for i := range riders {
		w.reach(fmt.Sprint("rider-", i), r)
	}
	r.answer(http.StatusServiceUnavailable) // so that requests are under way and retried all the time
	for i := range kills {
		for j := i * riders / kills; j < (i+1)*riders/kills; j++ {
			w.publish(fmt.Sprint("ride-", j), fmt.Sprint("rider-", j), "1s")
		}
		w.server.Kill()
		if err := w.server.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	r.answer(0)
	for i := range riders {
		r.wait(t, message, fmt.Sprint("ride-", i))
		ids := r.got(message, fmt.Sprint("ride-", i))
		for _, id := range ids {
			if id != ids[0] {
				t.Errorf("ride-%d came as %s and as %s", i, ids[0], id)
			}
		}
	}
}

func TestBadStepsAreRefusedByName(t *testing.T) {
	w := begin(t)
	for steps, field := range map[string]string{
		`[{"channel":"live"},{"channel":"pigeon","after":"5s"}]`:   "escalate[1].channel",
		`[{"channel":"live"},{"channel":"telegram","after":"5s"}]`: "escalate[1].channel",
		`[{"channel":"webhook","after":"25h"}]`:                    "escalate[0].after",
	} {
		a, err := w.api.Do(context.WithoutCancel(t.Context()), http.MethodPost, "/v1/notifications", []byte(`{"to":"a","title":"T","escalate":`+steps+`}`))
		if err != nil {
			t.Fatal(err)
		}
		if p := a.Problem(); a.Status != http.StatusBadRequest || p.Field != field {
			t.Errorf("%s: %d %+v, want field %s", steps, a.Status, p, field)
		}
	}
}
