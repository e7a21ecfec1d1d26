package godwit_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/store"
)

// signals is a handler that records its signals.
type signals chan godwit.Signal

func (s signals) handle(_ context.Context, got *godwit.Signal) error {
	s <- *got
	return nil
}

// known waits for the next signal with a known version.
func (s signals) known(t *testing.T) godwit.Signal {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case got := <-s:
			if !got.Unknown {
				return got
			}
		case <-late:
			t.Fatal("no version came")
		}
	}
}

func objects(t *testing.T, group string, opts ...godwit.ObjectsOption) *godwit.Objects {
	t.Helper()
	o, err := godwit.NewObjects(group, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func settled(t *testing.T, o *godwit.Objects) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := o.Settled(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestPutReachesWhoeverIsRegistered(t *testing.T) {
	transports(t, func(t *testing.T, _ *server, c *godwit.Client) {
		got := make(signals, 100)
		o := objects(t, "region-1")
		if err := o.Register(got.handle, "camera-config", "region-2/firmware"); err != nil {
			t.Fatal(err)
		}
		listen(t, c, "unit", nil, godwit.Follow(o), godwit.Device("main"))
		settled(t, o)
		for _, p := range []godwit.ObjectPut{
			{Version: 7, Payload: []byte(`{"iso":400}`)}, {Payload: []byte("text ☂")}, {Payload: []byte{0, 255}}, {Version: 1<<63 - 1},
		} {
			r, err := c.PutObject(t.Context(), "region-1", "camera-config", p)
			if err != nil || !r.Changed {
				t.Fatalf("%+v, %v", r, err)
			}
			s := got.known(t)
			if s.Group != "region-1" || s.Object != "camera-config" || s.Version != r.Version || string(s.Payload) != string(p.Payload) {
				t.Errorf("put %+v, got %+v", p, s)
			}
			o, err := c.GetObject(t.Context(), "region-1", "camera-config")
			if err != nil || o.Version != r.Version || string(o.Payload) != string(p.Payload) || o.ContentType != s.ContentType || o.UpdatedAt.IsZero() {
				t.Errorf("read %+v, %v", o, err)
			}
		}
		if _, err := c.PutObject(t.Context(), "region-2", "firmware", godwit.ObjectPut{Version: 3, Source: "somebody-else"}); err != nil {
			t.Fatal(err)
		}
		if s := got.known(t); s.Group != "region-2" || s.Version != 3 {
			t.Errorf("got %+v", s)
		}
		if r, err := c.PutObject(t.Context(), "region-2", "firmware", godwit.ObjectPut{Version: 4, Source: "unit/main"}); err != nil || r.Version != 4 {
			t.Fatalf("%+v, %v", r, err)
		}
		if err := c.DeleteObject(t.Context(), "region-2", "firmware"); err != nil {
			t.Fatal(err)
		}
		for s := range got { // version 4 sends no signal, because this client is its source
			if s.Unknown && s.Object == "firmware" && s.Version == 4 {
				break
			}
			if !s.Unknown {
				t.Errorf("got %+v", s)
			}
		}
	})
}

func TestUnitThatWasAwayGetsTheLatestVersionOnce(t *testing.T) {
	transports(t, func(t *testing.T, _ *server, c *godwit.Client) {
		file := filepath.Join(t.TempDir(), "registrations.json")
		visit := func() (signals, *godwit.Objects, func()) {
			got, o := make(signals, 1000), objects(t, "region-1", godwit.StateFile(file))
			if err := o.Register(got.handle, "camera-config"); err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- c.Listen(ctx, "unit", nil, godwit.Follow(o), godwit.Device("main")) }()
			settled(t, o)
			return got, o, func() { leave(); <-done }
		}
		if _, err := c.PutObject(t.Context(), "region-1", "camera-config", godwit.ObjectPut{}); err != nil {
			t.Fatal(err)
		}
		got, _, leave := visit()
		if s := got.known(t); s.Version != 1 {
			t.Errorf("got %+v", s)
		}
		leave()
		for range 100 {
			if _, err := c.PutObject(t.Context(), "region-1", "camera-config", godwit.ObjectPut{}); err != nil {
				t.Fatal(err)
			}
		}
		got, o, leave := visit()
		defer leave()
		if s := got.known(t); s.Version != 101 {
			t.Errorf("after the absence got %+v", s)
		}
		if err := o.Unregister("camera-config"); err != nil {
			t.Fatal(err)
		}
		settled(t, o)
		if list, err := c.Registrations(t.Context(), "region-1", "camera-config"); err != nil || len(list) != 0 {
			t.Errorf("after unregistering %+v, %v", list, err)
		}
		if len(got) > 0 {
			t.Errorf("got %+v besides", <-got)
		}
	})
}

func TestRegistrationsComeBackToAServerThatLostThem(t *testing.T) {
	dir := t.TempDir()
	s, err := startServer(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, s)
	got, o := make(signals, 1000), objects(t, "region-1")
	if err := o.Register(got.handle, "a", "b", "c"); err != nil {
		t.Fatal(err)
	}
	welcomes := make(chan godwit.Welcome, 10)
	listen(t, c, "unit", nil, godwit.Follow(o), godwit.Device("main"), godwit.OnConnect(func(w godwit.Welcome) { welcomes <- w }))
	<-welcomes
	settled(t, o)
	addrs := s.addrs()
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	lost, err := filepath.Glob(filepath.Join(dir, "objects.db*"))
	if err != nil || len(lost) == 0 {
		t.Fatalf("%v, %v", lost, err)
	}
	for _, f := range lost {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Repair(t.Context(), dir); err != nil { // makes an empty one
		t.Fatal(err)
	}
	s, err = startServer(dir, func(cfg *config.Config) { cfg.HTTPAddr, cfg.GRPCAddr = addrs.HTTP, addrs.GRPC })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}()
	if w := <-welcomes; w.Registrations != 0 {
		t.Errorf("the new server knows %d registrations", w.Registrations)
	}
	if _, err := c.PutObject(t.Context(), "region-1", "b", godwit.ObjectPut{Version: 5}); err != nil {
		t.Fatal(err)
	}
	if s := got.known(t); s.Object != "b" || s.Version != 5 {
		t.Errorf("got %+v", s)
	}
	settled(t, o)
}

func TestObserverFollowsWithAnAPIKey(t *testing.T) {
	c := client(t, run(t, nil))
	if _, err := c.PutObject(t.Context(), "g", "a", godwit.ObjectPut{}); err != nil {
		t.Fatal(err)
	}
	got, o := make(signals, 10), objects(t, "g")
	if err := o.Register(got.handle, "a"); err != nil {
		t.Fatal(err)
	}
	listen(t, c, "watcher", nil, godwit.Follow(o), godwit.Peek())
	if s := got.known(t); s.Version != 1 {
		t.Errorf("got %+v", s)
	}
	if list, err := c.Registrations(t.Context(), "g", "a"); err != nil || len(list) != 1 || !list[0].Online {
		t.Errorf("%+v, %v", list, err)
	}
}
