package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the worlds are small and create much garbage
	goleak.VerifyTestMain(m)
}

// seeds returns the seeds that the environment sets, or n random ones.
func seeds(t *testing.T, n int) (list []uint64) {
	if one := os.Getenv("GODWIT_SEED"); one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			t.Fatalf("GODWIT_SEED: %v", err)
		}
		return []uint64{seed}
	}
	switch many := os.Getenv("GODWIT_SEEDS"); {
	case many != "":
		var err error
		if n, err = strconv.Atoi(many); err != nil {
			t.Fatalf("GODWIT_SEEDS: %v", err)
		}
	case testing.Short() || blackbox.Raced(): // a world takes many times longer with the race detector
		n = (n + 49) / 50
	case !thorough.Run():
		n = (n + 24) / 25
	}
	first := rand.Uint64N(1 << 32)
	for i := range n {
		list = append(list, first+uint64(i))
	}
	return list
}

// simulated is a disk in memory.
type simulated struct {
	d *disk
	f *faults
}

func (s *simulated) open() (objectstore.Store, func(), error) {
	m := openMemory(s.d, s.f)
	return m, func() { m.kill(); m.wait() }, nil
}

func (s *simulated) wipe() { s.d = newDisk() }

// TestEveryClientLearnsTheLatestVersion is the promise.
func TestEveryClientLearnsTheLatestVersion(t *testing.T) {
	for _, seed := range seeds(t, 100) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &faults{rand: rand.New(rand.NewPCG(seed, 4))}
				live(t, seed, 200, 2000, &simulated{newDisk(), f}, f)
			})
		})
	}
}

// live runs a world from its seed, and judges it.
func live(t *testing.T, seed uint64, units, steps int, b backing, f *faults) {
	t.Helper()
	w := &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), backing: b, faults: f, judge: &judge{}, stop: make(chan struct{}),
		versions: map[objectName]object.Version{},
	}
	w.weather = &weather{rand: rand.New(rand.NewPCG(seed, 2))}
	w.calm()
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	w.populate(units)
	for range steps {
		w.step()
	}
	w.settle()
	w.verdict()
	t.Logf("%d frames to %d units, %d resyncs, %d servers; the last sent %+v", w.judge.frames, units, w.judge.resyncs, w.lives, w.server.svc.Counts())
	close(w.stop)
	w.kill()
	w.running.Wait()
	synctest.Wait()
	if t.Failed() {
		t.Logf("run it again with GODWIT_SEED=%d", seed)
	}
}

// populate creates the units: several devices per recipient, some sessions without a device, the same names in every app.
func (w *world) populate(n int) {
	for i := range n {
		u := &unit{
			app: apps[i%len(apps)], recipient: fmt.Sprint("unit-", i/len(apps)/2), dial: w.dial, judge: w.judge,
			beat: time.Duration(20+w.rand.IntN(40)) * time.Second, stop: w.stop, wake: make(chan struct{}, 1),
			rand: rand.New(rand.NewPCG(w.rand.Uint64(), 3)), want: map[string]bool{}, known: map[string]object.Version{},
			unsure: map[string]bool{}, refused: map[string]bool{}, own: map[string]object.Version{}, before: map[string]object.Version{},
			careless: func() bool { return w.weather.chance(func(x *weather) float64 { return x.swallow }) },
		}
		if w.rand.IntN(10) > 0 {
			u.device = fmt.Sprint("d", i/len(apps)%2)
		}
		for range w.rand.IntN(8) {
			u.want[w.name(u.app)] = true
		}
		w.units = append(w.units, u)
		w.running.Go(u.run)
	}
}

// A server that has lost everything must have all registrations again within one heartbeat of its restart.
func TestOnlineClientsResyncWithinAHeartbeatOfTotalLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := seeds(t, 1)[0]
		f := &faults{rand: rand.New(rand.NewPCG(seed, 4))}
		w := &world{
			t: t, rand: rand.New(rand.NewPCG(seed, 1)), backing: &simulated{newDisk(), f}, faults: f, judge: &judge{}, stop: make(chan struct{}),
			versions: map[objectName]object.Version{}, weather: &weather{rand: rand.New(rand.NewPCG(seed, 2))},
		}
		w.calm()
		if err := w.start(); err != nil {
			t.Fatal(err)
		}
		w.populate(200)
		for range 100 {
			w.publish()
		}
		time.Sleep(time.Minute)
		w.restart(true)
		time.Sleep(20 * time.Second) // the shortest heartbeat of any
		synctest.Wait()
		w.verdict() // every object is unknown now, and all clients have been told
		if c := w.server.svc.Counts(); c.Sent < 200 {
			t.Errorf("%d versions were sent", c.Sent)
		}
		close(w.stop)
		w.kill()
		w.running.Wait()
	})
}
