package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/cluster"
)

// socket is a connection to the real server.
type socket struct {
	ws  *websocket.Conn
	ctx context.Context
}

func (s *socket) send(text string) { _ = s.ws.Write(s.ctx, websocket.MessageText, []byte(text)) } // recv notices

func (s *socket) recv() (string, bool) {
	_, b, err := s.ws.Read(s.ctx)
	return string(b), err == nil
}

func (s *socket) cutOff() { _ = s.ws.CloseNow() }

// TestClientsOfAKilledServerLearnTheLatestVersion kills the server during its clients' sessions, and once deletes its objects.
func TestClientsOfAKilledServerLearnTheLatestVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	s := blackbox.Start(t, blackbox.Dev())
	learnTheLatest(t, s, func(life int) {
		s.Kill()
		if life == 2 {
			wipe(t, s.Dir)
			if out, err := s.Run("doctor", "--repair", "--data", s.Dir); err != nil { // makes an empty one
				t.Fatalf("%v: %s", err, out)
			}
		}
		if err := s.Launch(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestClientsOfThreeNodesLearnTheLatestVersion kills one node after the other; clients reconnect to the nodes that HAProxy chooses.
func TestClientsOfThreeNodesLearnTheLatestVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	thorough.Only(t, "TestClientsOfAKilledServerLearnTheLatestVersion for one server, and TestNothingIsLostWhileNodesDieAndTheBusIsCut of test/cluster for three")
	c := cluster.Start(t, cluster.Options{Serve: []blackbox.Option{blackbox.Plain()}})
	learnTheLatest(t, c.Front(), func(life int) {
		n := c.Nodes[life%len(c.Nodes)]
		n.Kill()
		if err := n.Launch(); err != nil {
			t.Fatal(err)
		}
	})
}

// learnTheLatest makes clients follow objects of a server that is killed again and again.
func learnTheLatest(t *testing.T, s *blackbox.Server, kill func(life int)) {
	t.Helper()
	seed := seeds(t, 1)[0]
	t.Logf("GODWIT_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	api := s.API()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	judge := &judge{}
	var units []*unit
	for i := range 60 {
		u := &unit{
			app: "demo", recipient: fmt.Sprint("unit-", i/2), device: fmt.Sprint("d", i%2), judge: judge, beat: 5 * time.Second, stop: stop,
			wake: make(chan struct{}, 1), rand: rand.New(rand.NewPCG(seed, uint64(i))), want: map[string]bool{},
			known: map[string]object.Version{}, unsure: map[string]bool{}, refused: map[string]bool{}, own: map[string]object.Version{}, before: map[string]object.Version{},
			dial: func(*unit) (wire, bool) {
				ws, _, err := websocket.Dial(ctx, "ws://"+s.HTTP+"/v1/connect", nil)
				if err != nil {
					return nil, false
				}
				return &socket{ws, ctx}, true
			},
		}
		for range r.IntN(8) {
			u.want[fmt.Sprint("o", r.IntN(objects))] = true
		}
		units = append(units, u)
		running.Go(u.run)
	}
	versions := map[string]int{}
	put := func() {
		name := fmt.Sprint("o", r.IntN(objects))
		versions[name]++
		v := versions[name]
		body := map[string]any{"version": v, "payload": payloadOf("demo", name, object.Version(v)), "content_type": "text/plain"}
		if r.IntN(10) == 0 {
			body = map[string]any{"version": v, "unknown": true}
		}
		_, _ = api.Do(ctx, http.MethodPut, "/v1/objects/"+group+"/"+name, body) // may fail, since the server may be dying
	}
	for life := range 4 {
		for range 150 {
			u := units[r.IntN(len(units))]
			switch n := r.IntN(10); {
			case n < 5:
				put()
			case n < 7:
				u.set(fmt.Sprint("o", r.IntN(objects)), true)
			case n < 8:
				u.set(fmt.Sprint("o", r.IntN(objects)), false)
			case n < 9:
				u.cut(false)
			default:
				u.forget()
			}
		}
		kill(life)
	}
	put()
	var problems []string
	asked := map[string]object.State{} // in one look at all units
	truth := func(_, name string) (st object.State) {
		if st, known := asked[name]; known {
			return st
		}
		defer func() { asked[name] = st }()
		a, err := api.Do(ctx, http.MethodGet, "/v1/objects/"+group+"/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		var v struct {
			Version object.Version `json:",string"`
			Unknown bool
		}
		if a.Status == http.StatusNotFound {
			return st
		}
		if err := a.JSON(&v); err != nil {
			t.Fatal(err)
		}
		return object.State{Version: v.Version, Known: !v.Unknown}
	}
	err := blackbox.Poll(ctx, time.Minute, func() error {
		problems = problems[:0]
		clear(asked)
		for _, u := range units {
			problems = append(problems, u.check(truth)...)
		}
		if len(problems) > 0 {
			return fmt.Errorf("%d problems:\n%s", len(problems), strings.Join(problems[:min(10, len(problems))], "\n"))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, c := range judge.heard() {
		t.Error(c)
	}
}

// wipe deletes the objects and registrations of a stopped server.
func wipe(t *testing.T, dir string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "objects.db*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("objects.db in %s: %v, %v", dir, found, err)
	}
	for _, f := range found {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}
