package faults

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

var pushKills = flag.Int("push-kills", 3, "how often the push service is killed")

// TestPushMessagesSurviveKills kills the server under senders of Web Push and a device that reconnects: what was answered with 201 arrives.
func TestPushMessagesSurviveKills(t *testing.T) {
	blackbox.Long(t)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--push-service"))
	d := &pushDevice{at: server.HTTP, got: make(map[string]int)}
	ctx, cancel := context.WithCancel(t.Context())
	if err := d.Connect(ctx, d.at); err != nil {
		t.Fatal(err)
	}
	endpoint, err := d.Subscribe(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	d.Cut()
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
	blackbox.PushDevice
	at  string // the server
	mu  sync.Mutex
	got map[string]int // how often each message came
}

// listen stays connected until ctx ends.
func (d *pushDevice) listen(ctx context.Context) {
	for ctx.Err() == nil {
		if err := d.Connect(ctx, d.at); err != nil {
			select { // the server may be down
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		var err error
		for err == nil {
			err = d.take(ctx)
		}
		d.Cut()
	}
}

// take takes one message and acknowledges it.
func (d *pushDevice) take(ctx context.Context) error {
	f, err := d.Next(ctx)
	if err != nil {
		return err
	}
	body, err := base64.RawURLEncoding.DecodeString(f.Data)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.got[string(body)]++
	d.mu.Unlock()
	return d.Ack(ctx, &f)
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
