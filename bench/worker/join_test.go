package worker

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/bench/loadgen"
)

// newRun returns a run for so many machines, and its token.
func newRun(t *testing.T, machines int) (*Run, string) {
	t.Helper()
	token := NewToken()
	r, err := NewRun(t.Context(), "127.0.0.1:0", token, machines)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r, token
}

// join takes part under a name; the channel gets the outcome.
func join(t *testing.T, r *Run, token, name string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- Join(t.Context(), r.Addr(), token, name) }()
	return done
}

func TestMachinesServeOneUseAfterAnotherUntilTheRunEnds(t *testing.T) {
	t.Parallel()
	r, token := newRun(t, 2)
	north, south := join(t, r, token, "north"), join(t, r, token, "south")
	machines, err := r.Machines(t.Context())
	if err != nil || len(machines) != 2 {
		t.Fatalf("joined: %v, %v", machines, err)
	}
	var held []*Worker
	for range 2 { // the second while the first is in use
		for _, m := range machines {
			w, err := r.Start(t.Context(), m.Name)
			if err != nil {
				t.Fatal(err)
			}
			if reply, err := w.Call(t.Context(), Request{Clock: &Clock{}}); err != nil || reply.Now == 0 || w.Where().Name != m.Name {
				t.Errorf("%s answered %+v, %v", m.Name, reply, err)
			}
			held = append(held, w)
		}
	}
	for _, w := range held {
		w.Stop()
	}
	if _, err := r.Machines(t.Context()); err != nil { // they have connected again: the end reaches them
		t.Fatal(err)
	}
	r.Close()
	for _, done := range []<-chan error{north, south} {
		if err := <-done; err != nil {
			t.Errorf("after the run has ended: %v", err)
		}
	}
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	r, token := newRun(t, 1)
	if err := <-join(t, r, NewToken(), "stranger"); err == nil || !strings.Contains(err.Error(), "another token") {
		t.Errorf("with another token: %v", err)
	}
	if err := <-join(t, r, "short", "stranger"); err == nil || !strings.Contains(err.Error(), "at least 20 characters") {
		t.Errorf("with a short token: %v", err)
	}
	// A client that does not look whom it talks to, with the key of another token.
	cfg, err := tlsConfig(NewToken(), sideWorker, sideRun)
	if err != nil {
		t.Fatal(err)
	}
	cfg.VerifyConnection = nil
	refused(t, r, cfg, "")
	cfg.Certificates = nil
	refused(t, r, cfg, "")
	// A client with the certificate of the run, not of a worker.
	own, err := tlsConfig(token, sideRun, sideWorker)
	if err != nil {
		t.Fatal(err)
	}
	own.VerifyConnection = nil
	refused(t, r, own, "")
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.machines) > 0 {
		t.Error("a stranger takes part")
	}
}

// refused joins by hand, with what a worker says first, and expects the connection to end after an answer that contains why.
func refused(t *testing.T, r *Run, cfg *tls.Config, why string) {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute)) // only limits the test
	c := tls.Client(conn, cfg)
	_, _ = io.WriteString(c, `{"hello":{"name":"stranger","protocol":1,"host":{}}}`+"\n")
	b, err := io.ReadAll(c)
	if why == "" && (err == nil || len(b) > 0) || !strings.Contains(string(b), why) {
		t.Errorf("the run answered %q, %v", b, err)
	}
}

func TestWhoTakesPartIsBounded(t *testing.T) {
	t.Parallel()
	r, token := newRun(t, 1)
	for name, why := range map[string]string{"": "name", "a\nb": "name", strings.Repeat("x", 129): "name"} {
		if err := <-join(t, r, token, name); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", name, err)
		}
	}
	join(t, r, token, "north")
	if _, err := r.Machines(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{"north": "joined already", "south": "all 1 machines"} {
		if err := <-join(t, r, token, name); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w, err := r.Start(t.Context(), "north")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	_, err = w.Call(t.Context(), Request{Connect: &loadgen.SubscriberConfig{Targets: []loadgen.Target{{}}, Count: MostConnections + 1}})
	if err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too many connections: %v", err)
	}
}

func TestOtherVersionsAreToldWhy(t *testing.T) {
	t.Parallel()
	r, token := newRun(t, 1)
	conn, answer := byHand(t, r, token, Machine{Name: "old", Protocol: protocol + 1})
	defer conn.Close()
	if answer.Welcome || !strings.Contains(answer.Refused, "same build") {
		t.Errorf("answered %+v", answer)
	}
}

// byHand joins as m, and returns the run's answer.
func byHand(t *testing.T, r *Run, token string, m Machine) (*tls.Conn, Request) {
	t.Helper()
	cfg, err := tlsConfig(token, sideWorker, sideRun)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", r.Addr(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var answer Request
	if err := json.NewEncoder(conn).Encode(Reply{Hello: &m}); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReaderSize(conn, 16).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &answer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn, answer
}

func TestClockOfAnotherMachineIsCompared(t *testing.T) {
	t.Parallel()
	r, token := newRun(t, 1)
	const late = int64(time.Hour)
	conn, answer := byHand(t, r, token, Machine{Name: "late", Protocol: protocol})
	defer conn.Close()
	if !answer.Welcome {
		t.Fatalf("answered %+v", answer)
	}
	set := make(chan int64, 1)
	go func() {
		requests, replies := json.NewDecoder(conn), json.NewEncoder(conn)
		for {
			var req Request
			if requests.Decode(&req) != nil {
				return
			}
			if req.Clock.Ahead != nil {
				set <- *req.Clock.Ahead
			}
			_ = replies.Encode(Reply{Now: loadgen.Now() - late})
		}
	}()
	w, err := r.Start(t.Context(), "late")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	within, ahead, err := w.CompareClocks(t.Context())
	if off := (ahead - time.Duration(late)).Abs(); err != nil || off > within {
		t.Errorf("the clock is an hour late, and found to be %s, give or take %s, %v", ahead, within, err)
	}
	if got := <-set; got != int64(ahead) {
		t.Errorf("the worker was told %d, not %d", got, ahead)
	}
}

func TestMachineThatHasLeftDoesNotCount(t *testing.T) {
	t.Parallel()
	r, token := newRun(t, 2)
	conn, _ := byHand(t, r, token, Machine{Name: "gone", Protocol: protocol})
	conn.Close()
	r.mu.Lock()
	gone := r.find("gone").idle
	r.mu.Unlock()
	<-gone.ended
	join(t, r, token, "north")
	join(t, r, token, "south") // in the place of the one that has left
	machines, err := r.Machines(t.Context())
	if err != nil || slices.ContainsFunc(machines, func(m Machine) bool { return m.Name == "gone" }) {
		t.Errorf("joined: %v, %v", machines, err)
	}
}

func TestMachineThatLeavesDuringTheRunIsNamed(t *testing.T) {
	t.Parallel()
	r, token := newRun(t, 1)
	conn, _ := byHand(t, r, token, Machine{Name: "gone", Protocol: protocol})
	w, err := r.Start(t.Context(), "gone")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	conn.Close()
	if _, err := w.Call(t.Context(), Request{Counts: true}); err == nil || !strings.Contains(err.Error(), "on gone") {
		t.Errorf("a machine that has left: %v", err)
	}
}
