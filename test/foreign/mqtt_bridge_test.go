package foreign

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// TestBridgeOfMosquitto runs mosquitto with the lines that the guide shows, but for the address and the token.
func TestBridgeOfMosquitto(t *testing.T) {
	blackbox.Long(t)
	program := blackbox.Tool(t, "mosquitto", "/usr/sbin/mosquitto")
	server := keeping(t, nil, "jobs.>")
	token := server.Token(t, "demo", "plant-3", "--topics", "jobs.>", "--publish", "alarms.>")
	lines := strings.NewReplacer("godwit.example:1883", mqttAddress(t, server), "TOKEN", token).Replace(bridgeOfGuide(t))
	local := blackbox.Free(t)
	_, port, _ := net.SplitHostPort(local)
	file := filepath.Join(t.TempDir(), "mosquitto.conf")
	text := fmt.Sprintf("listener %s 127.0.0.1\nallow_anonymous true\n%srestart_timeout 1\nlog_type all\n", port, lines)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stop := startBridge(t, program, file, local)
	watcher := newDevice(t, server)
	watcher.why = func() string { return serverSide(server.API(), "note", "plant-3") }
	watcher.connect(command{ID: "watcher", User: "demo/watcher", Clean: true})
	watcher.subscribe("alarms/#", 0, 0)
	inside := &hand{t: t, device: &goDevice{addr: local, events: make(chan happening, 256)}}
	inside.connect(command{ID: "inside"})
	inside.subscribe("jobs/#", 1, 1)
	inside.subscribe("inbox", 1, 1)
	inside.publish("alarms/fire", "smoke", 1)
	watcher.message("alarms/fire", "smoke")
	publisher := newPublisher(t, server)
	publisher.publish("jobs/1", "paint", 1)
	inside.message("jobs/1", "paint")
	if err := server.API().Publish(t.Context(), map[string]any{"to": "plant-3", "id": "note", "title": "Hi"}); err != nil {
		t.Fatal(err)
	}
	if e := inside.want("message"); e.Topic != "inbox" || !strings.Contains(e.Payload, `"id":"note"`) {
		t.Errorf("got %+v", e)
	} else {
		inside.Do(command{Do: "ack", Ref: e.Ref})
	}
	blackbox.Eventually(t, "acknowledged", func() error { return server.API().WantState(t.Context(), "note", "plant-3", "acked") })
	stop()
	blackbox.Eventually(t, "the bridge is gone", func() error {
		var r struct{ Sessions []any }
		answer, err := server.API().Do(t.Context(), http.MethodGet, "/v1/recipients/plant-3", nil)
		if err == nil {
			err = answer.JSON(&r)
		}
		if err == nil && len(r.Sessions) > 0 {
			return fmt.Errorf("%d sessions", len(r.Sessions))
		}
		return err
	})
	publisher.publish("jobs/2", "varnish", 1)
	if boxes := deviceMailboxes(t, server); len(boxes) != 1 {
		t.Fatalf("while the bridge is away, a message waits in %q", boxes)
	}
	startBridge(t, program, file, local)
	blackbox.Eventually(t, "the bridge has what waited", func() error {
		if n, err := server.API().Pending(t.Context()); err != nil || n > 0 {
			return fmt.Errorf("%d are pending: %w", n, err)
		}
		return nil
	})
}

// bridgeOfGuide returns the configuration that the guide shows.
func bridgeOfGuide(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join(blackbox.Root(), "docs", "guides", "mqtt.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(guide), "```\nconnection ")
	block, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("the guide shows no bridge")
	}
	return "connection " + block
}

// startBridge starts mosquitto and waits until it listens.
func startBridge(t *testing.T, program, file, addr string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, program, "-c", file)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	over := false
	stop = func() {
		if over {
			return
		}
		over = true
		cancel()
		<-ended
		if t.Failed() {
			t.Log(log.String())
		}
	}
	t.Cleanup(stop)
	blackbox.Eventually(t, "mosquitto listens", func() error {
		select {
		case err := <-ended:
			ended <- err
			return errors.Join(err, errors.New(log.String()))
		default:
		}
		nc, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			err = nc.Close()
		}
		return err
	})
	return stop
}
