package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"godwit.dev/godwit/test/blackbox"
)

// upgraded is a server on an upgraded folder, and one of its apps.
type upgraded struct {
	*testing.T
	server *blackbox.Server
	api    *blackbox.API
}

// call makes a request and fails the test unless it succeeds.
func (w *upgraded) call(method, path string, body, into any) {
	w.Helper()
	w.api.Call(w, method, path, body, into)
}

// publish publishes a notification with the longest possible life, unless more sets another.
func (w *upgraded) publish(id string, to any, more map[string]any) {
	w.Helper()
	n := map[string]any{"id": id, "to": to, "ttl": "30d"}
	for k, v := range more {
		n[k] = v
	}
	w.call(http.MethodPost, "/v1/notifications", n, nil)
}

func (w *upgraded) untilState(id, to, status string) {
	w.Helper()
	blackbox.Eventually(w, id+" is "+status, func() error { return w.api.WantState(w.Context(), id, to, status) })
}

// connect connects over WebSocket with a token that the server's app signs.
func (w *upgraded) connect(h blackbox.Hello) blackbox.Link {
	w.Helper()
	h.Token = w.token(h.Recipient)
	return w.server.Connect(w, "ws", h)
}

func (w *upgraded) token(recipient string, more ...string) string {
	w.Helper()
	return w.server.Token(w, "red", recipient, more...)
}

// events reads the feed from its beginning until enough returns true: each event is "type id".
func (w *upgraded) events(enough func(all []string) bool) (all []string) {
	w.Helper()
	err := w.api.Events(w.Context(), "", func(e blackbox.Event) bool {
		all = append(all, e.Type+" "+e.ID)
		return !enough(all)
	})
	if err != nil {
		w.Fatal(err)
	}
	return all
}

type campaignState struct {
	Name, State string
	Total       int
	Counts      map[string]int
	Sending     int
}

func (w *upgraded) campaign(id string) (c campaignState) {
	w.Helper()
	w.call(http.MethodGet, "/v1/campaigns/"+id, nil, &c)
	return c
}

func (w *upgraded) start(spec map[string]any) string {
	w.Helper()
	var c struct{ ID string }
	w.call(http.MethodPost, "/v1/campaigns", spec, &c)
	w.call(http.MethodPost, "/v1/campaigns/"+c.ID+"/start", nil, nil)
	return c.ID
}

// untilCampaign waits until a campaign has a state (empty: any) and that many accepted deliveries.
func (w *upgraded) untilCampaign(id, state string, accepted int) {
	w.Helper()
	blackbox.Eventually(w, "the campaign goes on", func() error {
		if c := w.campaign(id); c.Counts["accepted"] < accepted || state != "" && c.State != state {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}

// outcomes returns the outcomes of a campaign's deliveries, by endpoint.
func (w *upgraded) outcomes(id string) map[string]string {
	w.Helper()
	a, err := w.api.Do(w.Context(), http.MethodGet, "/v1/campaigns/"+id+"/deliveries", nil)
	if err != nil || a.Status != http.StatusOK {
		w.Fatal(err, a)
	}
	all := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(a.Body)); lines.Scan(); {
		var d struct{ Endpoint, Outcome string }
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			w.Fatal(err)
		}
		all[d.Endpoint] = d.Outcome
	}
	return all
}

// upgradedUnit is a connection on which objects are registered.
type upgradedUnit struct {
	*upgraded
	*websocket.Conn
}

// unitFrame has the parts of a server's frame that a unit needs.
type unitFrame struct {
	Welcome, Registered *struct{ Digest string }
	Object              *struct{ Object, Version string }
	Pong                *struct{}
}

// unit connects unit-1 from its device; the welcome is still to be read.
func (w *upgraded) unit() *upgradedUnit {
	w.Helper()
	c, resp, err := websocket.Dial(w.Context(), "ws://"+w.server.HTTP+"/v1/connect", &websocket.DialOptions{Subprotocols: []string{"godwit.v1.json"}})
	if err != nil {
		w.Fatal(err)
	}
	if resp.Body != nil {
		resp.Body.Close()
	}
	u := &upgradedUnit{w, c}
	u.send(fmt.Sprintf(`{"hello":{"app":"red","recipient":"unit-1","group":"region-1","device":"board","token":%q}}`, w.token("unit-1", "--group", "region-1")))
	return u
}

func (u *upgradedUnit) send(text string) {
	u.Helper()
	if err := u.Write(u.Context(), websocket.MessageText, []byte(text)); err != nil {
		u.Fatal(err)
	}
}

func (u *upgradedUnit) next() (f unitFrame) {
	u.Helper()
	_, b, err := u.Read(u.Context())
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		u.Fatal(err)
	}
	return f
}

// count returns an error unless there are n distinct ids.
func count(ids []string, n int) error {
	distinct := map[string]bool{}
	for _, id := range ids {
		distinct[id] = true
	}
	if len(distinct) < n {
		return fmt.Errorf("%d of %d came", len(distinct), n)
	}
	return nil
}
