package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

func TestObjectIsPutAndRead(t *testing.T) {
	w := newWorld(t)
	const path = "/v1/objects/region-1/camera-config"
	w.get(path).problem(404, "not-found", "")
	for _, step := range []struct{ body, answer, read string }{
		{
			`{"version":"7","payload":{"fps":25},"source":"client-3/main"}`, `{"version":"7","changed":true}`,
			`{"group":"region-1","object":"camera-config","version":"7","unknown":false,"payload":{"fps":25},"content_type":"application/json","source":"client-3/main"}`,
		},
		{`{"version":7,"payload":"other"}`, `{"version":"7","changed":false}`, ""},
		{`{"version":6}`, `{"version":"7","changed":false}`, ""},
		{``, `{"version":"8","changed":true}`, `{"group":"region-1","object":"camera-config","version":"8","unknown":false}`},
		{
			`{"payload":"two\nlines","content_type":"text/plain"}`, `{"version":"9","changed":true}`,
			`{"group":"region-1","object":"camera-config","version":"9","unknown":false,"payload":"two\nlines","content_type":"text/plain"}`,
		},
		{
			`{"payload_base64":"/w==","content_type":"image/x"}`, `{"version":"10","changed":true}`,
			`{"group":"region-1","object":"camera-config","version":"10","unknown":false,"payload_base64":"/w==","content_type":"image/x"}`,
		},
		{`{"unknown":true}`, `{"version":"10","changed":true}`, `{"group":"region-1","object":"camera-config","version":"10","unknown":true}`},
		{`{"unknown":true}`, `{"version":"10","changed":false}`, ""},
		{`{"version":10}`, `{"version":"10","changed":false}`, ""},
		{`{"version":"9223372036854775807"}`, `{"version":"9223372036854775807","changed":true}`, ""},
	} {
		if got := w.put(path, step.body).want(200).body; strings.TrimSpace(got) != step.answer {
			t.Errorf("%s is answered %s, want %s", step.body, got, step.answer)
		}
		if step.read == "" {
			continue
		}
		got, want := decode[map[string]any](w.get(path).want(200)), map[string]any{}
		if at, err := time.Parse(time.RFC3339, got["updated_at"].(string)); err != nil || time.Since(at) > time.Minute {
			t.Errorf("updated_at %v", got["updated_at"])
		}
		delete(got, "updated_at")
		if err := json.Unmarshal([]byte(step.read), &want); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after %s it reads %v, want %v", step.body, got, want)
		}
	}
	const posted = "/v1/objects/region-1/posted"
	if got := w.post(posted, `{"version":3}`).want(200).body; strings.TrimSpace(got) != `{"version":"3","changed":true}` {
		t.Errorf("a post is answered %s", got)
	}
	if got := w.post(posted, ``).want(200).body; strings.TrimSpace(got) != `{"version":"4","changed":true}` {
		t.Errorf("a post without a version is answered %s", got)
	}
	w.put(path, ``).problem(400, "bad-input", "version") // there is none above
	if got := w.delete(path).want(200).body; !strings.Contains(got, `"version":"9223372036854775807","changed":true`) {
		t.Errorf("deleting answers %s", got)
	}
	if v := decode[struct{ Unknown bool }](w.get(path).want(200)); !v.Unknown {
		t.Error("a deleted object is known")
	}
	w.delete("/v1/objects/region-1/never").problem(404, "not-found", "")
}

func TestBadPutsAreRefused(t *testing.T) {
	w := newWorld(t)
	for body, field := range map[string]string{
		`{"version":0}`:                                 "version",
		`{"version":-1}`:                                "version",
		`{"version":"07"}`:                              "version",
		`{"version":1.5}`:                               "version",
		`{"version":true}`:                              "version",
		`{"version":"9223372036854775808"}`:             "version",
		`{"unknown":"yes"}`:                             "unknown",
		`{"unknown":true,"payload":1}`:                  "payload",
		`{"payload":` + strings.Repeat("1", 4097) + `}`: "payload",
		`{"payload":{"a":nope}}`:                        "payload",
		`{"payload":5,"content_type":"text/plain"}`:     "payload",
		`{"payload":1,"payload_base64":"AA=="}`:         "payload_base64",
		`{"payload_base64":"?"}`:                        "payload_base64",
		`{"source":"a b"}`:                              "source",
		`{"source":"a/"}`:                               "source",
		`{"version":1,"version":2}`:                     "version",
		`{"colour":"red"}`:                              "colour",
		`{"colour":null}`:                               "colour",
	} {
		w.put("/v1/objects/g/o", body).problem(400, "bad-input", field)
	}
	w.put("/v1/objects/g/o", `{`).want(400)
	w.put("/v1/objects/g/o", `{"payload":"`+strings.Repeat("x", 40<<10)+`"}`).problem(413, "too-large", "")
	w.put("/v1/objects/g/a%20b", ``).problem(400, "bad-input", "object")
	w.put("/v1/objects/"+strings.Repeat("g", 129)+"/o", ``).problem(400, "bad-input", "group")
	w.get("/v1/objects/g?prefix=a%20").problem(400, "bad-input", "prefix")
	w.get("/v1/objects/g/o").want(404)
	w.put("/v1/objects/g/o", `{"payload":"`+strings.Repeat(`\u0041`, 4096)+`","content_type":"text/plain"}`).want(200) // 4 KB after decoding
}

func TestObjectsAreListedInPages(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.put(fmt.Sprintf("/v1/objects/north/cam-%d", i), ``).want(200)
	}
	w.put("/v1/objects/north/z", ``).want(200)
	w.put("/v1/objects/south/cam-9", ``).want(200)
	type listed struct {
		Items []struct{ Group, Object, Version string }
		Next  *string `json:"next_cursor"`
	}
	var got []string
	for path := "/v1/objects/north?prefix=cam-&limit=2"; ; {
		l := decode[listed](w.get(path).want(200))
		for _, it := range l.Items {
			got = append(got, it.Group+"/"+it.Object+" "+it.Version)
		}
		if l.Next == nil {
			break
		}
		path = "/v1/objects/north?prefix=cam-&limit=2&cursor=" + *l.Next
	}
	if want := []string{"north/cam-0 1", "north/cam-1 1", "north/cam-2 1", "north/cam-3 1", "north/cam-4 1"}; !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	if l := decode[listed](w.get("/v1/objects/east").want(200)); l.Items == nil || len(l.Items) != 0 {
		t.Errorf("an empty group is %+v", l)
	}
}

func TestAnotherAppsObjectsAreNotThere(t *testing.T) {
	w := newWorld(t)
	w.put("/v1/objects/g/o", `{"version":7}`).want(200)
	other := func(method, path string) answer {
		return w.do(request{method: method, path: path, key: w.keys["other"]})
	}
	other("GET", "/v1/objects/g/o").want(404)
	other("DELETE", "/v1/objects/g/o").want(404)
	if body := other("GET", "/v1/objects/g").want(200).body; !strings.Contains(body, `"items":[]`) {
		t.Errorf("it lists %s", body)
	}
	if body := other("PUT", "/v1/objects/g/o").want(200).body; !strings.Contains(body, `"version":"1"`) {
		t.Errorf("its first version is %s", body)
	}
	if body := w.get("/v1/objects/g/o").want(200).body; !strings.Contains(body, `"version":"7"`) {
		t.Errorf("ours is %s now", body)
	}
}

// deaf is a session that accepts every frame and does nothing.
type deaf struct{}

func (deaf) Format() frame.Format                       { return frame.JSON }
func (deaf) Send(frame.ServerKind, []byte, []byte) bool { return true }
func (deaf) Cork()                                      {}
func (deaf) Uncork()                                    {}
func (deaf) Queued() int                                { return 0 }

// unit registers a client for objects of group north and waits until the registration is stored.
func (w *world) unit(recipient, device string, objects ...string) session.Part {
	w.t.Helper()
	s := w.objects.Open(w.t.Context(), deaf{}, session.Client{App: "shop", Recipient: recipient, Group: "north", Device: device}, false)
	s.Join()
	s.Start()
	f := &frame.Client{Kind: frame.KindRegister}
	for _, o := range objects {
		f.Objects = append(f.Objects, []byte(o))
	}
	s.Frame(f)
	for {
		if _, n := s.(session.Digester).Digest(); n == len(objects) {
			return s
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatal("not registered in time")
		case <-time.After(time.Millisecond):
		}
	}
}

type registration struct {
	Group, Object, Recipient, Device string
	Online                           bool
	LastSeen                         string  `json:"last_seen"`
	Sent                             *string `json:"sent_version"`
	Acked                            *string `json:"acked_version"`
}

func TestRegistrationsAreShownByObjectAndByRecipient(t *testing.T) {
	w := newWorld(t)
	w.put("/v1/objects/north/config", `{"version":7}`).want(200)
	away := w.unit("unit-1", "main", "config", "other")
	away.Frame(&frame.Client{Kind: frame.KindObjectAck, Object: []byte("config"), Version: 7})
	away.Closed()
	online := w.unit("unit-2", "spare", "config")
	defer online.Closed()

	rs := decode[[]registration](w.get("/v1/objects/north/config/registrations").want(200))
	if len(rs) != 2 || rs[0].Recipient != "unit-1" || rs[0].Online || rs[0].Device != "main" || rs[0].LastSeen == "" ||
		rs[1].Recipient != "unit-2" || !rs[1].Online || rs[1].Device != "spare" || rs[1].Acked != nil {
		t.Errorf("registrations %+v", rs)
	}
	if rs := w.get("/v1/objects/north/nobody/registrations").want(200).body; strings.TrimSpace(rs) != "[]" {
		t.Errorf("nobody's registrations: %s", rs)
	}
	w.presence.connect("shop", "unit-1", session.Info{ID: "main", Device: "main", Gateway: "ws", ConnectedAt: time.Now(), LastSeen: time.Now()})
	v := decode[struct{ Registrations []registration }](w.get("/v1/recipients/unit-1").want(200))
	if len(v.Registrations) != 2 || v.Registrations[0].Group != "north" || v.Registrations[0].Object != "config" || v.Registrations[1].Object != "other" || v.Registrations[0].Recipient != "" {
		t.Errorf("of the recipient: %+v", v.Registrations)
	}
	w.delete("/v1/recipients/unit-1").want(204)
	if rs := decode[[]registration](w.get("/v1/objects/north/config/registrations").want(200)); len(rs) != 1 || rs[0].Recipient != "unit-2" {
		t.Errorf("after erasing unit-1: %+v", rs)
	}
	w.delete("/v1/recipients/unit-1").want(404)
}

// unerasable is a service whose store is unreachable during erasures.
type unerasable struct{ allObjects }

func (unerasable) Erase(context.Context, string, string) error {
	return errors.New("the store is away")
}

func TestFailedErasureEndsTheSessionsAllTheSame(t *testing.T) {
	w := newWorld(t, func(c *setup) { c.Objects = unerasable{c.Objects} })
	w.unit("unit-1", "main", "config").Closed()
	w.presence.connect("shop", "unit-1", session.Info{ID: "main", Device: "main", Gateway: "ws", ConnectedAt: time.Now(), LastSeen: time.Now()})
	w.delete("/v1/recipients/unit-1").want(500)
	if len(w.presence.goodbyes) != 1 {
		t.Errorf("%d sessions were ended; its registrations are in no session any more", len(w.presence.goodbyes))
	}
}

func TestPutsCountAgainstTheKeysLimit(t *testing.T) {
	left := 2
	w := newWorld(t, func(c *setup) {
		c.PublishLimit = func(string, int) time.Duration {
			if left--; left < 0 {
				return time.Second
			}
			return 0
		}
	})
	w.put("/v1/objects/g/o", ``).want(200)
	w.delete("/v1/objects/g/o").want(200)
	w.put("/v1/objects/g/o", ``).problem(429, "rate-limited", "")
}
