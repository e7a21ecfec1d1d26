package httpapi_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/internal/sending/webpush"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
)

// openChannels opens real channels on a store: only Web Push, with w.outside as its client.
func (w *world) openChannels(store *appdb.Store, log *slog.Logger) {
	w.outside = provider.Client(urlguard.All)
	w.t.Cleanup(w.outside.CloseIdleConnections)
	var err error
	w.channels, err = channel.New(w.t.Context(), &store.Channels, map[push.Channel]channel.Kind{
		push.WebPush: webpush.Kind{Client: w.outside, Targets: urlguard.All},
	}, log)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(w.channels.Close)
}

type channelView struct {
	Channel     string
	Configured  bool
	Enabled     bool
	Settings    map[string]any
	Credentials []string
}

func (w *world) put(path, body string) answer {
	w.t.Helper()
	return w.do(request{method: "PUT", path: path, body: body})
}

func TestChannelIsSetUpWithoutShowingItsCredentials(t *testing.T) {
	w := newWorld(t)
	key, err := webpush.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	shown := w.put("/v1/channels/webpush", `{"subject":"mailto:a@b.example","private_key":"`+key.Private()+`"}`).want(http.StatusOK)
	v := decode[channelView](shown)
	if !v.Configured || !v.Enabled || v.Settings["public_key"] != key.Public() || len(v.Credentials) != 1 {
		t.Errorf("%+v", v)
	}
	w.put("/v1/channels/webpush", `{"subject":null}`).want(http.StatusOK)
	read := w.get("/v1/channels/webpush").want(http.StatusOK)
	if v := decode[channelView](read); v.Settings["subject"] != nil || v.Settings["public_key"] != key.Public() {
		t.Errorf("after the subject was taken away: %+v", v)
	}
	w.put("/v1/channels/webpush", `{"private_key":"`+key.Private()+`x"}`).problem(http.StatusBadRequest, "bad-input", "private_key")
	list := w.get("/v1/channels").want(http.StatusOK)
	for _, text := range []string{shown.body, read.body, list.body, w.log.String()} {
		if strings.Contains(text, key.Private()) {
			t.Errorf("shows the private key: %s", text)
		}
	}
	if theirs := w.do(request{method: "GET", path: "/v1/channels/webpush", key: w.keys["other"]}); strings.Contains(theirs.body, key.Public()) {
		t.Errorf("another app sees %s", theirs.body)
	}
	w.delete("/v1/channels/webpush").want(http.StatusNoContent)
	w.delete("/v1/channels/webpush").problem(http.StatusConflict, "channel-unconfigured", "")
}

func TestBadChannelSettingsNameTheirField(t *testing.T) {
	w := newWorld(t)
	for body, field := range map[string]string{
		`{"subject":"me"}`: "subject", `{"subject":7}`: "subject", `{"subject":"mailto:a@localhost"}`: "subject", `{"nonsense":1}`: "nonsense", `{"enabled":"yes"}`: "enabled", `{"public_key":"x"}`: "public_key",
	} {
		w.put("/v1/channels/webpush", body).problem(http.StatusBadRequest, "bad-input", field)
	}
	w.put("/v1/channels/webpush", `[]`).problem(http.StatusBadRequest, "bad-json", "")
	w.put("/v1/channels/pigeon", `{}`).problem(http.StatusNotFound, "not-found", "")
	w.get("/v1/channels/pigeon").problem(http.StatusNotFound, "not-found", "")
}

func TestAnyPageGetsTheKeyOfWebPush(t *testing.T) {
	w := newWorld(t)
	get := func(path string) answer {
		return w.do(request{method: "GET", path: path, key: "-", header: map[string]string{"Origin": "https://anywhere.example"}})
	}
	first := get("/v1/webpush/key?app=shop").want(http.StatusOK)
	if first.header.Get("Access-Control-Allow-Origin") != "*" || get("/v1/webpush/key?app=shop").body != first.body {
		t.Errorf("%v, %s", first.header, first.body)
	}
	if get("/v1/webpush/key?app=other").want(http.StatusOK).body == first.body {
		t.Error("two apps have one key")
	}
	get("/v1/webpush/key?app=nobody").problem(http.StatusNotFound, "unknown-app", "")
	get("/v1/webpush/key").problem(http.StatusNotFound, "unknown-app", "")
	w.put("/v1/channels/webpush", `{"enabled":false}`).want(http.StatusOK)
	get("/v1/webpush/key?app=shop").problem(http.StatusNotFound, "channel-disabled", "")
	w.post("/v1/channels/webpush/test", "").problem(http.StatusConflict, "channel-disabled", "")
}

func TestChannelTestSaysWhatTheProviderSaid(t *testing.T) {
	server := pushserver.Start(pushserver.Options{})
	t.Cleanup(server.Close)
	w := newWorld(t)
	server.Trust(w.outside)
	type result struct {
		OK              bool
		Outcome, Detail string
	}
	if r := decode[result](w.post("/v1/channels/webpush/test", "").want(http.StatusOK)); !r.OK || r.Detail == "" {
		t.Errorf("credentials: %+v", r)
	}
	id, address := server.Subscribe(pushserver.Accepting)
	body := `{"address":` + string(address) + `,"title":"Hello"}`
	if r := decode[result](w.post("/v1/channels/webpush/test", body).want(http.StatusOK)); !r.OK || len(server.Received(id)) != 1 {
		t.Errorf("message: %+v", r)
	}
	server.Behave(id, pushserver.Gone)
	if r := decode[result](w.post("/v1/channels/webpush/test", body).want(http.StatusOK)); r.OK || r.Outcome != "gone" || r.Detail == "" {
		t.Errorf("gone: %+v", r)
	}
	w.post("/v1/channels/webpush/test", `{"to":"x"}`).problem(http.StatusBadRequest, "bad-input", "to")
}
