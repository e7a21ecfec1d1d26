package signal_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/objects/signal"
)

// shared is a store that another node changes too, without a report to this node.
type shared struct {
	*flaky
	obs       objectstore.Observer
	elsewhere atomic.Bool
	away      atomic.Bool

	mu   sync.Mutex
	news []objectstore.News
	at   []time.Time
	asks []time.Time // times of the reads for news
}

func (s *shared) Observe(obs objectstore.Observer) {
	s.obs = obs
	s.flaky.Observe(s)
}

func (s *shared) Changed(batch []objectstore.Change) {
	if !s.elsewhere.Load() {
		s.obs.Changed(batch)
	}
}

// News has pages of one change each.
func (s *shared) News(_ context.Context, since time.Time, from *objectstore.NewsMark, _ int) ([]objectstore.News, *objectstore.NewsMark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away.Load() {
		return nil, nil, errors.New("the store is away")
	}
	if from == nil {
		s.asks = append(s.asks, since)
	}
	passed := from == nil
	for i, n := range s.news {
		if passed && !s.at[i].Before(since) {
			return []objectstore.News{n}, &objectstore.NewsMark{At: s.at[i], App: n.App, Key: n.Key}, nil
		}
		passed = passed || n.Key == from.Key
	}
	return nil, nil, nil
}

// looks returns how often news was read.
func (s *shared) looks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asks)
}

// put changes an object through another node. The change is committed the duration late after its time.
func (s *shared) put(w *world, name string, v object.Version, late time.Duration) {
	w.Helper()
	s.elsewhere.Store(true)
	w.put(name, v)
	s.elsewhere.Store(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := object.Key{Group: "north", Object: name}
	if i := slices.IndexFunc(s.news, func(n objectstore.News) bool { return n.Key == key }); i >= 0 { // an object is there once
		s.news, s.at = slices.Delete(s.news, i, i+1), slices.Delete(s.at, i, i+1)
	}
	s.news = append(s.news, objectstore.News{App: app, Key: key, Version: v, Known: true})
	s.at = append(s.at, time.Now().Add(-late))
}

// inSharedWorld is inWorld with a store that another node changes too.
func inSharedWorld(t *testing.T, cfg signal.Config, test func(w *world, other *shared)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.db")
	synctest.Test(t, func(t *testing.T) {
		var other *shared
		cfg.Now = time.Now // that of the bubble
		w := &world{T: t, path: path, cfg: cfg, wrap: func(s objectstore.Store) objectstore.Store {
			other = &shared{flaky: s.(*flaky)}
			return other
		}}
		w.start()
		defer w.stop()
		test(w, other)
	})
}

func TestOtherNodesChangesArriveWithinSeconds(t *testing.T) {
	inSharedWorld(t, signal.Config{}, func(w *world, other *shared) {
		u := w.connect("unit-1", "main")
		defer u.close()
		w.put("a", 1)
		u.register("a", "b")
		u.want("registered a b", "a 1", "b ?")
		u.ack("a", 1)
		time.Sleep(10*time.Minute + time.Second) // between two looks
		other.put(w, "a", 2, 0)
		other.put(w, "nobody-follows-it", 1, 0)
		u.want() // it could not know
		time.Sleep(6 * time.Second)
		u.want("a 2")
		u.ack("a", 2)
		other.put(w, "b", 5, 50*time.Second) // its transaction took that long
		time.Sleep(6 * time.Second)
		u.want("b 5")
		u.ack("b", 5)
		time.Sleep(time.Minute)
		w.put("a", 3)
		u.want("a 3")
		time.Sleep(6 * time.Second)
		u.want() // a known change is not sent again
	})
}

// TestPossibleBusLossCausesEarlierLook: reads are more frequent after the start and after a reported loss, for a while each.
func TestPossibleBusLossCausesEarlierLook(t *testing.T) {
	inSharedWorld(t, signal.Config{}, func(w *world, other *shared) {
		u := w.connect("unit-1", "main")
		defer u.close()
		u.register("a")
		u.want("registered a", "a ?")
		v := object.Version(0)
		comes := func(within time.Duration) {
			w.Helper()
			v++
			other.put(w, "a", v, 0)
			time.Sleep(within + time.Millisecond)
			u.want(fmt.Sprint("a ", v))
			u.ack("a", int(v))
		}
		comes(2 * time.Second) // the service has just started
		time.Sleep(10 * time.Minute)
		for range 20 { // for as long as a node is missing
			w.svc.Missed()
			comes(2 * time.Second)
		}
		comes(2 * time.Second)
		time.Sleep(10 * time.Minute)
		before := other.looks()
		time.Sleep(time.Minute)
		if n := other.looks() - before; n > 13 {
			w.Errorf("it looked %d times in a minute in which nothing was lost", n)
		}
		before = other.looks()
		for range 100 { // repeated losses do not cause endless reads
			w.svc.Missed()
			synctest.Wait()
		}
		if n := other.looks() - before; n > 1 {
			w.Errorf("it looked %d times at once", n)
		}
	})
}

// TestNewsThatCouldNotBeReadAreSoonReadAgain: a change that was stored while the database became unreachable may not
// have been reported to any node.
func TestNewsThatCouldNotBeReadAreSoonReadAgain(t *testing.T) {
	inSharedWorld(t, signal.Config{}, func(w *world, other *shared) {
		u := w.connect("unit-1", "main")
		defer u.close()
		u.register("a")
		u.want("registered a", "a ?")
		time.Sleep(10 * time.Minute)
		other.away.Store(true)
		time.Sleep(time.Minute)
		other.put(w, "a", 1, 0)
		other.away.Store(false)
		time.Sleep(2*time.Second + time.Millisecond)
		u.want("a 1")
	})
}

func TestNewsAreLookedForFromWhereTheLastLookBegan(t *testing.T) {
	inSharedWorld(t, signal.Config{}, func(w *world, other *shared) {
		u := w.connect("unit-1", "main")
		defer u.close()
		u.register("a")
		u.want("registered a", "a ?")
		other.away.Store(true)
		time.Sleep(6 * time.Second)
		other.put(w, "a", 1, 0)
		time.Sleep(10 * time.Minute)
		u.want()
		other.away.Store(false)
		time.Sleep(6 * time.Second)
		u.want("a 1")
		time.Sleep(6 * time.Second)
		other.mu.Lock()
		defer other.mu.Unlock()
		if last := other.asks[len(other.asks)-1]; time.Since(last) > objectstore.Overlap+12*time.Second {
			w.Errorf("it still looks at what was new %s ago", time.Since(last))
		}
	})
}

func TestDevicesThatStayConnectedAreNotAwayToOtherNodes(t *testing.T) {
	inSharedWorld(t, signal.Config{Retain: 24 * time.Hour}, func(w *world, _ *shared) {
		stays, gone := w.connect("stays", "main"), w.connect("gone", "main")
		defer stays.close()
		for _, u := range []*unit{stays, gone} {
			u.register("a")
			u.told()
		}
		gone.close()
		for range 30 {
			time.Sleep(time.Hour)
			if away, err := w.db.Away(w.Context(), time.Now().Add(-2*time.Hour), 10); err != nil || len(away) > 1 {
				w.Fatalf("another node would think that %v are away, %v", away, err)
			}
		}
		for r, want := range map[string]int{"stays": 1, "gone": 0} {
			if v, err := w.db.Clients(w.Context(), app, r); err != nil || len(v) != want {
				w.Errorf("%s has %d stored sets, %v; want %d", r, len(v), err, want)
			}
		}
	})
}
