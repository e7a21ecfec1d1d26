package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"godwit.dev/godwit/internal/messaging/bus/natstest"
	"godwit.dev/godwit/test/blackbox"
)

// TestANATSOfYourOwnJoinsNodes: an existing NATS can replace the nodes' own connections, and no stored data is lost while it is
// unreachable.
func TestANATSOfYourOwnJoinsNodes(t *testing.T) {
	t.Parallel()
	guard, creds := natstest.Guard(t, false), filepath.Join(t.TempDir(), "nats.creds")
	seed := natstest.Credentials(t, creds, guard.Account, "godwit.>", "_godwit.>", "_INBOX.>")
	c := Start(t, Options{Nodes: 2, NATS: guard.Addr, Credentials: creds})
	one, other := c.Nodes[0], c.Nodes[1]

	l := dial(t, one, "ws", "unit")
	for k := range 5 {
		id := fmt.Sprint("n", k)
		publish(t, other, "unit", id)
		next(t, l, id)
	}
	blackbox.Eventually(t, "the other node knows who is connected here", func() error {
		a, err := other.API().Do(t.Context(), http.MethodGet, "/v1/recipients/unit", nil)
		if err == nil && !strings.Contains(string(a.Body), `"node":"n1"`) {
			err = fmt.Errorf("it says %s", a.Body)
		}
		return err
	})

	// Topics, objects and requests of a session use it, too.
	s := listen(t, one, "listener")
	s.send(`{"subscribe":{"topics":["rides.*"]}}`, `{"register":{"group":"g","objects":["config"]}}`, `{"serve":{"subjects":["orders"]}}`)
	s.wait(`"registered"`)
	blackbox.Eventually(t, "a message comes from the other node", func() error {
		if err := ask(t, other, http.MethodPost, "/v1/topics/rides.oslo", "x", http.StatusAccepted); err != nil {
			return err
		}
		return s.got(`"message"`)
	})
	if err := ask(t, other, http.MethodPut, "/v1/objects/g/config", map[string]any{"payload": 25}, http.StatusOK); err != nil {
		t.Fatal(err)
	}
	s.wait(`"version":"1"`)
	blackbox.Eventually(t, "a request is answered from the other node", func() error {
		return ask(t, other, http.MethodPost, "/v1/requests/orders", "x", http.StatusOK)
	})

	// One node is cut off from NATS: stored notifications arrive all the same, and later both nodes find each other again.
	c.wires[[2]int{0, 0}].Cut()
	c.Missed(0, 1)
	publish(t, other, "unit", "cut")
	next(t, l, "cut")
	c.wires[[2]int{0, 0}].Heal()
	c.Joined(2)
	publish(t, other, "unit", "mended")
	next(t, l, "mended")

	if v := seen(t, one); v["self"] != 1 || v["alive"] != 1 || len(v) != 2 {
		t.Errorf("GET /v1/cluster says %v", v)
	}
	for _, n := range c.Nodes {
		if strings.Contains(n.Log(), seed) {
			t.Error("a log has the key of the credentials")
		}
	}
}

// ask makes a request and ends the test unless the answer has the status.
func ask(t *testing.T, s *blackbox.Server, method, path string, body any, want int) error {
	t.Helper()
	a, err := s.API().Do(t.Context(), method, path, body)
	if err == nil && a.Status != want {
		err = fmt.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	return err
}

// listener is a session that records its frames, and answers requests.
type listener struct {
	t    *testing.T
	conn *websocket.Conn

	mu  sync.Mutex
	all []string
}

// listen connects a listener, which ends with the test.
func listen(t *testing.T, s *blackbox.Server, recipient string) *listener {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), "ws://"+s.HTTP+"/v1/connect", nil) // none on success
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{t: t, conn: ws}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var reading sync.WaitGroup
	reading.Go(func() { l.read(ctx) })
	t.Cleanup(func() { cancel(); _ = ws.CloseNow(); reading.Wait() })
	l.send(fmt.Sprintf(`{"hello":{"app":"demo","recipient":%q}}`, recipient))
	return l
}

func (l *listener) read(ctx context.Context) {
	for {
		_, b, err := l.conn.Read(ctx)
		if err != nil {
			return
		}
		l.mu.Lock()
		l.all = append(l.all, string(b))
		l.mu.Unlock()
		var f struct {
			Request struct {
				ID string `json:"request_id"`
			}
		}
		if json.Unmarshal(b, &f) == nil && f.Request.ID != "" {
			_ = l.conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"reply":{"request_id":%q}}`, f.Request.ID))
		}
	}
}

func (l *listener) send(frames ...string) {
	l.t.Helper()
	for _, f := range frames {
		if err := l.conn.Write(l.t.Context(), websocket.MessageText, []byte(f)); err != nil {
			l.t.Fatal(err)
		}
	}
}

// got returns nil if a received frame contains a text.
func (l *listener) got(what string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.all {
		if strings.Contains(f, what) {
			return nil
		}
	}
	return errors.New("it has not come")
}

func (l *listener) wait(what string) {
	l.t.Helper()
	blackbox.Eventually(l.t, "the session gets "+what, func() error { return l.got(what) })
}
