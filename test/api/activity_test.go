package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/sending/sendertest/apnsserver"
	"godwit.dev/godwit/test/blackbox"
)

// shows waits until a device shows a state of its activity.
func (p *phones) shows(what, token, state string, ended bool) {
	p.Helper()
	blackbox.Eventually(p, what, func() error {
		if s := p.apple.Shows(token); s.State != state || s.Ended != ended {
			return fmt.Errorf("the device shows %+v", s)
		}
		return nil
	})
}

func (p *phones) put(payload any) {
	p.Helper()
	p.call(http.MethodPut, "/v1/objects/rides/r1", map[string]any{"payload": payload})
}

func TestALiveActivityFromStartToEnd(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]func(*testing.T) kept{"files": inFiles, "postgres": inPostgres} {
		t.Run(name, func(t *testing.T) {
			p := beginPhones(t, in(t), 1, 0)
			start, address := p.apple.RegisterStart("RideAttributes", apnsserver.Accepting)
			p.call(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "liveactivitystart", "recipient": rider(0), "address": address})
			p.call(http.MethodPost, "/v1/notifications", map[string]any{
				"to": rider(0), "id": "n1", "title": "Driver {{found}}", "body": "4 min",
				"live_activity": map[string]any{"type": "RideAttributes", "state": map[string]any{"eta": 4}, "group": "rides", "object": "r1"},
				"escalate":      []map[string]any{{"channel": "liveactivitystart", "after": "0s"}},
			})
			p.shows("the start", start, `{"eta":4}`, false)
			if m := string(p.apple.Received(start)[0].Payload); !strings.Contains(m, `"title":"Driver {{found}}"`) || !strings.Contains(m, `"godwit_object":"rides/r1"`) {
				t.Errorf("started by %s", m)
			}
			p.put(map[string]any{"eta": 3})
			token := p.apple.RegisterActivity(apnsserver.Accepting) // the app registers it only now
			p.call(http.MethodPost, "/v1/endpoints", map[string]any{
				"channel": "liveactivity", "recipient": rider(0), "address": map[string]any{"token": token, "group": "rides", "object": "r1"},
			})
			p.shows("the version of before", token, `{"eta":3}`, false)
			p.put(map[string]any{"eta": 1, "godwit_activity": map[string]any{"stale_after": "5m", "alert": map[string]any{"title": "T", "body": "B"}}})
			p.shows("an update", token, `{"eta":1}`, false)
			if got := p.apple.Received(token); got[len(got)-1].Priority != "10" || got[0].Priority != "5" {
				t.Errorf("priorities %s and %s", got[0].Priority, got[len(got)-1].Priority)
			}
			p.server.Kill()
			if err := p.server.Launch(); err != nil {
				t.Fatal(err)
			}
			p.put(map[string]any{"eta": 0, "godwit_activity": map[string]any{"end": true}})
			p.shows("the end", token, `{"eta":0}`, true)
			for _, secret := range []string{start, token} {
				if strings.Contains(p.server.Log(), secret) {
					t.Error("the log has a token")
				}
			}
		})
	}
}

func TestEverybodyFollowsABroadcastChannel(t *testing.T) {
	t.Parallel()
	p := beginPhones(t, inFiles(t), 1, 0)
	var made struct {
		ID   string `json:"channel_id"`
		Keep bool   `json:"keep"`
	}
	p.api.Call(p, http.MethodPut, "/v1/objects/rides/r1/broadcast", map[string]any{"keep": false}, &made)
	first := made
	if p.api.Call(p, http.MethodPut, "/v1/objects/rides/r1/broadcast", nil, &made); made != first || len(p.apple.Broadcasts()) != 1 || made.Keep {
		t.Fatalf("made %+v, then %+v", first, made)
	}
	p.put(map[string]any{"goals": 1})
	blackbox.Eventually(t, "the broadcast", func() error {
		if shown, _ := p.apple.Broadcast(made.ID); shown.State != `{"goals":1}` {
			return fmt.Errorf("devices show %+v", shown)
		}
		return nil
	})
	start, address := p.apple.RegisterStart("MatchAttributes", apnsserver.Accepting)
	p.call(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "liveactivitystart", "recipient": rider(0), "address": address})
	p.call(http.MethodPost, "/v1/campaigns", map[string]any{
		"name": "kick-off", "audience": map[string]any{"channels": []string{"liveactivitystart"}},
		"content": map[string]any{"title": "Kick-off", "live_activity": map[string]any{"type": "MatchAttributes", "state": map[string]any{"goals": 0}, "broadcast": made.ID}},
	})
	var list struct{ Items []struct{ ID string } }
	p.api.Call(p, http.MethodGet, "/v1/campaigns", nil, &list)
	if len(list.Items) == 1 {
		p.call(http.MethodPost, "/v1/campaigns/"+list.Items[0].ID+"/start", nil)
	}
	p.shows("the start by a campaign", start, `{"goals":0}`, false)
	if m := string(p.apple.Received(start)[0].Payload); !strings.Contains(m, `"input-push-channel":"`+strings.TrimSpace(made.ID)) {
		t.Errorf("started by %s", m)
	}
	p.put(map[string]any{"goals": 2, "godwit_activity": map[string]any{"end": true}})
	blackbox.Eventually(t, "the end for everybody", func() error {
		if shown, _ := p.apple.Broadcast(made.ID); !shown.Ended {
			return fmt.Errorf("devices show %+v", shown)
		}
		return nil
	})
	p.call(http.MethodDelete, "/v1/objects/rides/r1/broadcast", nil)
	if len(p.apple.Broadcasts()) != 0 {
		t.Error("the channel is still there")
	}
	p.wantProblem(http.MethodGet, "/v1/objects/rides/r1/broadcast", nil, http.StatusNotFound, "")
}

func TestWhatIsWrongForPhonesIsSaid(t *testing.T) {
	t.Parallel()
	p := beginPhones(t, inFiles(t), 1, 0)
	activity := map[string]any{"type": "RideAttributes", "state": map[string]any{}}
	for field, more := range map[string]map[string]any{
		"fcm.colour":              {"fcm": map[string]any{"colour": "red"}},
		"fcm.progress":            {"fcm": map[string]any{"ongoing": true, "progress": 101}},
		"fcm.ongoing ":            {"fcm": map[string]any{"ongoing": "yes"}},
		"fcm.progress ":           {"fcm": map[string]any{"ongoing": true, "progress": "40"}},
		"fcm.short_text":          {"fcm": map[string]any{"short_text": "5 min"}},
		"fcm.ongoing":             {"fcm": map[string]any{"ongoing": true, "data_only": false}},
		"apns.volume":             {"apns": map[string]any{"volume": 0.5}},
		"apns.critical":           {"apns": map[string]any{"critical": true}},
		"apns.relevance_score":    {"apns": map[string]any{"relevance_score": 2}},
		"apns.interruption_level": {"apns": map[string]any{"interruption_level": "loud"}},
		"live_activity.type":      {"live_activity": map[string]any{"state": map[string]any{}}},
		"live_activity.state":     {"live_activity": map[string]any{"type": "A", "state": 7}},
		"live_activity":           {"live_activity": 7},
		"escalate[0].channel":     {"escalate": []map[string]any{{"channel": "liveactivitystart", "after": "0s"}}},
	} {
		body := map[string]any{"to": rider(0), "title": "T"}
		for k, v := range more {
			body[k] = v
		}
		p.wantProblem(http.MethodPost, "/v1/notifications", body, http.StatusBadRequest, strings.TrimSpace(field))
	}
	p.wantProblem(http.MethodPost, "/v1/notifications", map[string]any{
		"to": rider(0), "title": "T", "live_activity": activity, "escalate": []map[string]any{{"channel": "liveactivity", "after": "0s"}},
	}, http.StatusBadRequest, "escalate[0].channel")
	p.wantProblem(http.MethodPut, "/v1/objects/rides/r1", map[string]any{"payload": json.RawMessage(`{"godwit_activity":{"end":7}}`)}, http.StatusBadRequest, "payload.godwit_activity.end")
	for field, address := range map[string]map[string]any{
		"address.group": {"token": strings.Repeat("a", 64)}, "address.token": {"group": "g", "object": "o"}, "address.keep": {"token": strings.Repeat("a", 64), "group": "g", "object": "o", "keep": true},
		"address.type": {"token": strings.Repeat("a", 64), "group": "g", "object": "o", "type": "A"},
	} {
		p.wantProblem(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "liveactivity", "address": address}, http.StatusBadRequest, field)
	}
	p.wantProblem(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "liveactivitystart", "address": map[string]any{"token": strings.Repeat("a", 64), "type": "A B"}}, http.StatusBadRequest, "address.type")
}

// A client may have an activity follow what it may follow over a live connection.
func TestATokensObjectsBindActivitiesToo(t *testing.T) {
	t.Parallel()
	p := beginPhones(t, inFiles(t), 1, 0)
	of := func(object string) map[string]any {
		return map[string]any{"channel": "liveactivity", "address": map[string]any{"token": strings.Repeat("ab", 32), "group": "rides", "object": object}}
	}
	token := p.server.Token(t, "demo", rider(0), "--objects", "rides/r1")
	for object, status := range map[string]int{"r1": http.StatusCreated, "r2": http.StatusForbidden} {
		a, err := p.server.API(token).Do(t.Context(), http.MethodPost, "/v1/endpoints?app=demo", of(object))
		if err != nil || a.Status != status {
			t.Errorf("%s: %v, %d %s", object, err, a.Status, a.Body)
		}
	}
}
