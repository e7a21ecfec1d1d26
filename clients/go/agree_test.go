package godwit

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/testkit/thorough"
)

// TestClientAndServerAgreeWhateverHappens exposes one client and one server to every kind of fault, and then checks that they agree.
func TestClientAndServerAgreeWhateverHappens(t *testing.T) {
	first := rand.Uint64N(1 << 32)
	for seed := first; seed < first+uint64(thorough.Rounds(10, 60)); seed++ { // small numbers
		t.Logf("seed %d", seed) // the last one shown is the one that failed
		synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
		if t.Failed() {
			return
		}
	}
}

func chaos(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	s := newObjectServer(t)
	var opts []ObjectsOption
	if seed%5 == 0 { // files take real time
		opts = append(opts, StateFile(filepath.Join(t.TempDir(), "state.json")))
	}
	f := follow(t, s, opts...)
	f.run()
	want := map[string]bool{}
	top := map[string]Version{}
	name := func() string { return fmt.Sprintf("o%02d", r.IntN(12)) }
	wipe := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		clear(s.set)
		clear(s.objects)
		clear(s.acked)
	}
	for range 150 {
		switch r.IntN(12) {
		case 0, 1, 2:
			o := name()
			want[o] = true
			f.register(o)
		case 3, 4:
			o := name()
			delete(want, o)
			f.unregister(o)
		case 5, 6, 7:
			o := name()
			top[o]++
			s.put(o, top[o])
		case 8:
			s.drop()
		case 9:
			if r.IntN(4) == 0 {
				wipe()
			}
		case 10:
			s.mu.Lock()
			s.delay = time.Duration(r.IntN(3)) * 400 * time.Millisecond
			s.mu.Unlock()
		case 11:
			if r.IntN(4) > 0 {
				continue
			}
			f.l.end() // the program restarts, perhaps with nothing but its state file
			seen := f.seen
			f = follow(t, s, opts...)
			f.seen = seen
			for o := range want {
				f.register(o)
			}
			f.run()
			for _, st := range f.o.List() { // what the file held besides
				if !want[st.Object] {
					f.unregister(st.Object)
				}
			}
		}
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
	}
	s.mu.Lock()
	s.delay = 0
	s.mu.Unlock()
	var names []string
	for o := range want {
		names = append(names, o)
	}
	slices.Sort(names)
	time.Sleep(15 * time.Minute)
	f.agreed(names...)
	for o, v := range top { // wiped objects are put again
		top[o] = v + 1
		s.put(o, top[o])
	}
	synctest.Wait()
	for _, o := range names {
		if f.at(o) != top[o] {
			t.Errorf("%s is at %s, latest is %s", o, f.at(o), top[o])
		}
	}
	f.l.end()
}
