package faults

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"godwit.dev/godwit/test/blackbox"
)

var pushKills = flag.Int("push-kills", 3, "how often the push service is killed")

// TestPushMessagesSurviveKills kills the server under senders of Web Push and a device that reconnects: what was answered with 201 arrives.
func TestPushMessagesSurviveKills(t *testing.T) {
	blackbox.Long(t)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--push-service"))
	d := &pushDevice{at: "ws://" + server.HTTP + "/push", got: make(map[string]int)}
	ctx, cancel := context.WithCancel(t.Context())
	endpoint, err := d.subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { d.listen(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })

	var mu sync.Mutex
	accepted := make(map[string]bool)
	var next atomic.Int64
	for round := range *pushKills {
		enough := len(accepted) + 100
		var senders sync.WaitGroup
		full := make(chan struct{})
		var once sync.Once
		for range 4 {
			senders.Go(func() {
				for {
					body := fmt.Sprintf("message %d", next.Add(1))
					if err := sendPush(ctx, endpoint, body); err != nil {
						once.Do(func() { close(full) })
						return
					}
					mu.Lock()
					accepted[body] = true
					if len(accepted) >= enough {
						once.Do(func() { close(full) })
					}
					mu.Unlock()
				}
			})
		}
		<-full
		server.Kill()
		senders.Wait()
		if len(accepted) < enough {
			t.Fatalf("round %d: only %d messages were accepted", round, len(accepted))
		}
		if err := server.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	blackbox.Eventually(t, "all messages arrive", func() error {
		if missing := d.missing(accepted); len(missing) > 0 {
			return fmt.Errorf("%d of %d are missing, such as %s", len(missing), len(accepted), missing[0])
		}
		return nil
	})
	t.Logf("%d kills, %d messages accepted, none lost", *pushKills, len(accepted))
}

// sendPush sends a message; an error means that it was not accepted.
func sendPush(ctx context.Context, endpoint, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("TTL", "3600")
	req.Header.Set("Content-Encoding", "aes128gcm")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("answered with %d", resp.StatusCode)
	}
	return nil
}

// pushDevice is a device of the push service that acknowledges what it gets.
type pushDevice struct {
	at, uaid string
	mu       sync.Mutex
	got      map[string]int // how often each message came
}

type pushAnswer struct{ MessageType, UAID, PushEndpoint, ChannelID, Version, Data string }

func ask(ctx context.Context, ws *websocket.Conn, m map[string]any) (a pushAnswer, err error) {
	b, err := json.Marshal(m)
	if err == nil {
		err = ws.Write(ctx, websocket.MessageText, b)
	}
	if err == nil {
		_, b, err = ws.Read(ctx)
	}
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	return a, err
}

func (d *pushDevice) connect(ctx context.Context) (*websocket.Conn, error) {
	ws, _, err := websocket.Dial(ctx, d.at, &websocket.DialOptions{Subprotocols: []string{"push-notification"}}) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, err
	}
	hello, err := ask(ctx, ws, map[string]any{"messageType": "hello", "uaid": d.uaid, "use_webpush": true})
	if err == nil && d.uaid != "" && hello.UAID != d.uaid {
		err = errors.New("the device is not known any more")
	}
	if err != nil {
		_ = ws.CloseNow()
		return nil, err
	}
	d.uaid = hello.UAID
	return ws, nil
}

// subscribe makes a channel and returns its endpoint.
func (d *pushDevice) subscribe(ctx context.Context) (string, error) {
	ws, err := d.connect(ctx)
	if err != nil {
		return "", err
	}
	defer ws.CloseNow()
	a, err := ask(ctx, ws, map[string]any{"messageType": "register", "channelID": "deadbeef-0000-4000-8000-0123456789ab"})
	return a.PushEndpoint, err
}

// listen stays connected until ctx ends.
func (d *pushDevice) listen(ctx context.Context) {
	for ctx.Err() == nil {
		ws, err := d.connect(ctx)
		if err != nil {
			select { // the server may be down
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		for err == nil {
			err = d.take(ctx, ws)
		}
		_ = ws.CloseNow()
	}
}

// take takes one message and acknowledges it.
func (d *pushDevice) take(ctx context.Context, ws *websocket.Conn) error {
	_, b, err := ws.Read(ctx)
	if err != nil {
		return err
	}
	var a pushAnswer
	if err := json.Unmarshal(b, &a); err != nil {
		return err
	}
	body, err := base64.RawURLEncoding.DecodeString(a.Data)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.got[string(body)]++
	d.mu.Unlock()
	b, err = json.Marshal(map[string]any{"messageType": "ack", "updates": []any{map[string]any{"channelID": a.ChannelID, "version": a.Version, "code": 100}}})
	if err != nil {
		return err
	}
	return ws.Write(ctx, websocket.MessageText, b)
}

// missing lists the messages that have not come.
func (d *pushDevice) missing(of map[string]bool) (list []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for body := range of {
		if d.got[body] == 0 {
			list = append(list, body)
		}
	}
	return list
}
