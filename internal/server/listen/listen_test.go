package listen_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/lifecycle"
	"godwit.dev/godwit/internal/server/listen"
)

// world is a list of listeners whose services record their calls.
type world struct {
	*listen.Set
	steps  *lifecycle.Steps
	failed chan error
	events []string
}

func newWorld() *world {
	w := &world{failed: make(chan error, 1)}
	w.steps = lifecycle.New(slog.New(slog.DiscardHandler), func(error) {})
	w.Set = listen.New(w.steps, func(err error) { w.failed <- err }, time.Minute, nil)
	return w
}

// echo is a listener that accepts connections and closes them.
func (w *world) echo(key, addr string) listen.Listener {
	return listen.Listener{Key: key, Owner: "module of " + key, Addr: addr, Serve: func(ln net.Listener, _ *tls.Config) (listen.Service, error) {
		w.events = append(w.events, "serve "+key)
		return listen.Service{
			Name: key + " answers",
			Run: func(context.Context) error {
				for {
					c, err := ln.Accept()
					if err != nil {
						return err
					}
					_ = c.Close()
				}
			},
			Shutdown: func(context.Context) error { w.events = append(w.events, "end "+key); return nil },
		}, nil
	}}
}

func TestTakenListenerIsRefusedWithBothNames(t *testing.T) {
	w := newWorld()
	if err := w.Add(w.echo("a_addr", "")); err != nil {
		t.Fatal(err)
	}
	again := w.echo("a_addr", "")
	again.Owner = "thief"
	if err := w.Add(again); err == nil || !strings.Contains(err.Error(), "thief") || !strings.Contains(err.Error(), "module of a_addr") {
		t.Errorf("error is %v", err)
	}
}

func TestListenersAreServedInOrderAndEndInReverse(t *testing.T) {
	w := newWorld()
	for _, key := range []string{"a_addr", "b_addr", "off_addr"} {
		addr := "127.0.0.1:0"
		if key == "off_addr" {
			addr = ""
		}
		if err := w.Add(w.echo(key, addr)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Open(t.Context()), w.Serve()); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a_addr", "b_addr"} {
		c, err := net.Dial("tcp", w.Addrs()[key])
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		_ = c.Close()
	}
	if at := w.Addrs()["off_addr"]; at != "" {
		t.Errorf("a listener that is off listens on %s", at)
	}
	if err := errors.Join(w.Stop(), w.steps.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	if want := []string{"serve a_addr", "serve b_addr", "end b_addr", "end a_addr"}; !slices.Equal(w.events, want) {
		t.Errorf("events %q, want %q", w.events, want)
	}
	select {
	case err := <-w.failed:
		t.Errorf("a stop is a failure: %v", err)
	default:
	}
}

func TestListenerThatFailsFailsTheServer(t *testing.T) {
	w := newWorld()
	l := w.echo("a_addr", "127.0.0.1:0")
	l.Serve = func(net.Listener, *tls.Config) (listen.Service, error) {
		return listen.Service{Name: "a", Run: func(context.Context) error { return errors.New("broken") }, Shutdown: func(context.Context) error { return nil }}, nil
	}
	if err := errors.Join(w.Add(l), w.Open(t.Context()), w.Serve()); err != nil {
		t.Fatal(err)
	}
	if err := <-w.failed; err.Error() != "serve a_addr: broken" {
		t.Errorf("failure is %q", err)
	}
	if err := w.steps.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAddressInUseLeavesNothingServed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	w := newWorld()
	if err := errors.Join(w.Add(w.echo("a_addr", "127.0.0.1:0")), w.Add(w.echo("b_addr", taken.Addr().String()))); err != nil {
		t.Fatal(err)
	}
	if err := w.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "open b_addr") {
		t.Errorf("error is %v", err)
	}
	at := w.Addrs()["a_addr"]
	if err := w.steps.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", at); err == nil {
		_ = c.Close()
		t.Error("a_addr is still open")
	}
	if len(w.events) != 0 {
		t.Errorf("events %q", w.events)
	}
}
