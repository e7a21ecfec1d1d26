package apns_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/apns"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
	"godwit.dev/godwit/internal/sending/sendertest/apnsserver"
)

// ride is a message that starts an activity.
func ride(address json.RawMessage) push.Request {
	return push.Request{ID: "d-1", App: "shop", Address: address, Content: push.Content{
		Title: "Driver found", Body: "4 min away",
		Activity: &push.ActivityContent{
			Type: "RideAttributes", Attributes: json.RawMessage(`{"ride":"9f3"}`), State: json.RawMessage(`{"eta":4}`), Group: "rides", Object: "ride-9f3",
		},
	}}
}

func TestAMessageStartsALiveActivity(t *testing.T) {
	w := start(t)
	device, address := w.RegisterStart("RideAttributes", apnsserver.Accepting)
	r := ride(address)
	r.Content.APNs.Sound, r.Content.Activity.StaleAfter, r.ExpiresAt = "default", "10m", w.clock.Now().Add(time.Minute)
	w.send(t, r)
	m, payload := w.last(t, device)
	now := w.clock.Now().Unix()
	want := `{"aps":{"timestamp":` + strconv.FormatInt(now, 10) + `,"event":"start","content-state":{"eta":4},"attributes-type":"RideAttributes",` +
		`"attributes":{"godwit_object":"rides/ride-9f3","ride":"9f3"},"input-push-token":1,` +
		`"alert":{"title":"Driver found","body":"4 min away","sound":"default"},"stale-date":` + strconv.FormatInt(now+600, 10) + `}}`
	if payload != want {
		t.Errorf("payload\n%s, want\n%s", payload, want)
	}
	if m.PushType != "liveactivity" || m.Topic != topic+".push-type.liveactivity" || m.Priority != "10" || m.Collapse != "" || m.Expiration != strconv.FormatInt(now+60, 10) {
		t.Errorf("sent as %+v", m)
	}
	if p := w.sender.Pace(address).Scope; p == w.sender.Pace(json.RawMessage(`{"token":"aa"}`)).Scope {
		t.Error("a refused topic of activities would stop notifications too")
	}
}

func TestAStartThatWouldShowNothingIsNotSent(t *testing.T) {
	w := start(t)
	device, address := w.RegisterStart("RideAttributes", apnsserver.Accepting)
	for what, change := range map[string]func(*push.Request){
		"without an activity": func(r *push.Request) { r.Content.Activity = nil },
		"that has expired":    func(r *push.Request) { r.ExpiresAt = w.clock.Now() },
		"of another type":     func(r *push.Request) { r.Content.Activity.Type = "MatchAttributes" },
		"without an alert":    func(r *push.Request) { r.Content.Title, r.Content.Body = "", "" },
		"too large":           func(r *push.Request) { r.Content.Body = strings.Repeat("x", 4096) },
	} {
		r := ride(address)
		change(&r)
		_, err := w.sender.Send(t.Context(), r)
		if got := sendertest.OutcomeOf(err); got != sendertest.Permanent {
			t.Errorf("a start %s ended as %s (%v)", what, got, err)
		}
	}
	if n := len(w.Received(device)); n != 0 {
		t.Errorf("%d messages came", n)
	}
}

func (w *world) update(t *testing.T, token string, u push.ActivityUpdate) error {
	t.Helper()
	u.Address = json.RawMessage(`{"token":"` + token + `","group":"rides","object":"ride-9f3"}`)
	return w.sender.UpdateActivity(t.Context(), &u)
}

func TestAnUpdateReplacesTheStateAndAnEndEndsIt(t *testing.T) {
	w := start(t)
	token := w.RegisterActivity(apnsserver.Accepting)
	now := w.clock.Now()
	score := 0.5
	if err := w.update(t, token, push.ActivityUpdate{
		State: json.RawMessage(`{"eta":3}`), Urgency: push.UrgencyHigh, Stale: now.Add(time.Minute), Relevance: &score,
		Alert: &push.ActivityAlert{Title: "Almost there", Body: "1 min"},
	}); err != nil {
		t.Fatal(err)
	}
	m, payload := w.last(t, token)
	unix := strconv.FormatInt(now.Unix(), 10)
	if want := `{"aps":{"timestamp":` + unix + `,"event":"update","content-state":{"eta":3},"alert":{"title":"Almost there","body":"1 min"},"stale-date":` +
		strconv.FormatInt(now.Unix()+60, 10) + `,"relevance-score":0.5}}`; payload != want || m.Priority != "10" {
		t.Errorf("payload\n%s, want\n%s", payload, want)
	}
	w.clock.Advance(time.Second)
	if err := w.update(t, token, push.ActivityUpdate{State: json.RawMessage(`{"eta":0}`), End: true, Dismiss: now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if shown := w.Shows(token); !shown.Ended || shown.State != `{"eta":0}` || shown.Ignored != 0 {
		t.Errorf("the device shows %+v", shown)
	}
	if _, payload = w.last(t, token); !strings.Contains(payload, `"event":"end"`) || !strings.Contains(payload, `"dismissal-date":`+strconv.FormatInt(now.Unix()+3600, 10)) {
		t.Errorf("ended by %s", payload)
	}
}

func TestAnUpdateThatIsTooLargeIsNotSent(t *testing.T) {
	w := start(t)
	token := w.RegisterActivity(apnsserver.Accepting)
	id, err := w.sender.CreateBroadcast(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	large := func(n int) json.RawMessage { return json.RawMessage(`{"s":"` + strings.Repeat("x", n) + `"}`) }
	var permanent *push.PermanentError
	if err := w.update(t, token, push.ActivityUpdate{State: large(4096)}); !errors.As(err, &permanent) || len(w.Received(token)) != 0 {
		t.Errorf("4 KB to a device: %v", err)
	}
	to := json.RawMessage(`{"channel_id":"` + id + `","keep":true}`)
	if err := w.sender.UpdateActivity(t.Context(), &push.ActivityUpdate{Address: to, State: large(4500)}); err != nil {
		t.Errorf("4.5 KB to everybody: %v", err)
	}
	if err := w.sender.UpdateActivity(t.Context(), &push.ActivityUpdate{Address: to, State: large(5120)}); !errors.As(err, &permanent) {
		t.Errorf("more than 5 KB to everybody: %v", err)
	}
	if _, got := w.Broadcast(id); len(got) != 1 || w.Requests() != 2 { // one made the channel
		t.Errorf("%d broadcasts came, in %d requests", len(got), w.Requests())
	}
}

func TestBroadcastChannelsAreMadeFoundAndDeleted(t *testing.T) {
	w := start(t)
	for _, keep := range []bool{false, true} {
		id, err := w.sender.CreateBroadcast(t.Context(), keep)
		if err != nil {
			t.Fatal(err)
		}
		if kept, err := w.sender.FindBroadcast(t.Context(), id); err != nil || kept != keep {
			t.Errorf("keeps %t, %v; want %t", kept, err, keep)
		}
		to, _ := json.Marshal(map[string]any{"channel_id": id, "keep": keep})
		if err := w.sender.UpdateActivity(t.Context(), &push.ActivityUpdate{Address: to, State: json.RawMessage(`{"goals":1}`)}); err != nil {
			t.Fatal(err)
		}
		shown, got := w.Broadcast(id)
		if shown.State != `{"goals":1}` || len(got) != 1 || (got[0].Expiration == "0") == keep || got[0].RequestID == "" {
			t.Errorf("shown %+v, sent %+v", shown, got)
		}
		if err := w.sender.DeleteBroadcast(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		var gone *push.GoneError
		if _, err := w.sender.FindBroadcast(t.Context(), id); !errors.As(err, &gone) {
			t.Errorf("found after it was deleted: %v", err)
		}
		if err := w.sender.UpdateActivity(t.Context(), &push.ActivityUpdate{Address: to, State: json.RawMessage(`{}`)}); !errors.As(err, &gone) {
			t.Errorf("sent after it was deleted: %v", err)
		}
	}
}

func TestLimitsOfBroadcastsAreSaid(t *testing.T) {
	for what, c := range map[string]struct {
		options apnsserver.Options
		says    string
	}{
		"too many channels":      {apnsserver.Options{Channels: 1}, "10,000 broadcast channels"},
		"broadcasts not enabled": {apnsserver.Options{NoBroadcast: true}, "enable the broadcast capability"},
	} {
		w := startWith(t, c.options)
		if !c.options.NoBroadcast {
			if _, err := w.sender.CreateBroadcast(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.sender.CreateBroadcast(t.Context(), false)
		if got := sendertest.OutcomeOf(err); got != sendertest.Permanent || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAnswersAboutActivities(t *testing.T) {
	for reason, c := range map[string]struct {
		status int
		want   sendertest.Outcome
	}{
		"Unregistered":           {http.StatusGone, sendertest.IsGone},
		"ExpiredToken":           {http.StatusGone, sendertest.IsGone},
		"DeviceTokenNotForTopic": {http.StatusBadRequest, sendertest.Objects},
		"TopicDisallowed":        {http.StatusBadRequest, sendertest.Config},
		"TooManyRequests":        {http.StatusTooManyRequests, sendertest.Retry},
		"PayloadTooLarge":        {http.StatusRequestEntityTooLarge, sendertest.Permanent},
	} {
		w := start(t)
		token := w.RegisterActivity(apnsserver.Behaviour{Status: c.status, Reason: reason})
		err := w.update(t, token, push.ActivityUpdate{State: json.RawMessage(`{}`)})
		if got := sendertest.OutcomeOf(err); got != c.want {
			t.Errorf("%s ended as %s (%v), want %s", reason, got, err, c.want)
		}
	}
}

// The kit notices what Apple or a device would not take.
func TestTheKitNoticesWhatADeviceWouldDrop(t *testing.T) {
	w := start(t)
	device, _ := w.Register(apnsserver.Accepting)
	err := w.update(t, device, push.ActivityUpdate{State: json.RawMessage(`{}`)})
	if got := sendertest.OutcomeOf(err); got != sendertest.Objects {
		t.Errorf("an update to a token of notifications ended as %s (%v)", got, err)
	}
	token := w.RegisterActivity(apnsserver.Accepting)
	if _, err := w.sender.Send(t.Context(), hello("d", json.RawMessage(`{"token":"`+token+`"}`))); err == nil {
		t.Error("an alert to an activity's token was accepted")
	}
	if err := w.update(t, token, push.ActivityUpdate{}); err == nil {
		t.Error("an update without a state was accepted")
	}
	for range 2 {
		if err := w.update(t, token, push.ActivityUpdate{State: json.RawMessage(`{"eta":2}`)}); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(-2 * time.Second)
	}
	if shown := w.Shows(token); shown.Ignored != 1 {
		t.Errorf("an update with an older timestamp was shown: %+v", shown)
	}
}

var _ push.ActivityUpdater = (*apns.Sender)(nil)

func TestACriticalSoundPlaysOnAMutedDevice(t *testing.T) {
	w := start(t)
	device, address := w.Register(apnsserver.Accepting)
	half, score := 0.5, 0.75
	for want, c := range map[string]push.APNsContent{
		`"sound":{"critical":1,"name":"alarm.caf","volume":0.5},"interruption-level":"critical"`: {Sound: "alarm.caf", Critical: true, Volume: &half},
		`"sound":{"critical":1,"name":"default","volume":1},"interruption-level":"critical"`:     {Sound: "default", Critical: true},
		`"sound":"default","relevance-score":0.75`:                                               {Sound: "default", Relevance: &score},
	} {
		r := hello("d-1", address)
		r.Content.APNs = c
		w.send(t, r)
		if _, payload := w.last(t, device); payload != `{"aps":{"alert":{"title":"Hi"},`+want+`},"godwit_id":"d-1"}` {
			t.Errorf("sent %s, want %s", payload, want)
		}
	}
}
