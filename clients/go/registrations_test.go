package godwit

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestRegistrationsAreHeldBackUntilTheServerHasSaidWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newObjectServer(t)
		f := follow(t, s)
		f.register("a", "b")
		f.run()
		f.agreed("a", "b")
		f.l.end()
		if s.registers != 1 {
			t.Fatalf("%d register frames for the first registration", s.registers)
		}
		again := follow(t, s) // the program restarts, without memory
		again.register("a", "b")
		again.run()
		again.agreed("a", "b")
		again.l.end()
		if s.registers != 1 || s.resets != 0 {
			t.Errorf("the restart sent %d register frames and %d resets", s.registers-1, s.resets)
		}
	})
}

func TestLatestVersionArrivesOnceAndIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newObjectServer(t)
		s.put("a", 7)
		f := follow(t, s)
		f.register("a")
		f.run()
		acknowledged()
		if v, _ := s.heard("a"); f.at("a") != 7 || v != 7 {
			t.Errorf("registering gave version %s, acknowledged %s", f.at("a"), v)
		}
		s.put("a", 8)
		synctest.Wait()
		s.conn.in <- serverFrame{Object: &Signal{Group: "g", Object: "a", Version: 8}} // the acknowledgement was lost
		s.conn.in <- serverFrame{Object: &Signal{Group: "g", Object: "a", Version: 7}} // and one came late
		acknowledged()
		if v, _ := s.heard("a"); f.at("a") != 8 || f.n != 2 || v != 8 {
			t.Errorf("version %s after %d calls, acknowledged %s", f.at("a"), f.n, v)
		}
		if st := f.o.Status("a"); st.Version != 8 || st.Status != Registered {
			t.Errorf("status %+v", st)
		}
		f.l.end()
	})
}

// acknowledged waits until handled signals are acknowledged.
func acknowledged() {
	synctest.Wait()
	time.Sleep(ackPatience)
	synctest.Wait()
}

func TestBurstOfVersionsIsAcknowledgedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newObjectServer(t)
		f := follow(t, s)
		f.register("a", "b")
		f.run()
		acknowledged()
		for v := range 5 {
			s.put("a", Version(v+1))
			s.put("b", Version(v+1))
			synctest.Wait()
		}
		if _, n := s.heard("a"); n != 0 {
			t.Errorf("%d acknowledgements before %s had passed", n, ackPatience)
		}
		acknowledged()
		a, n := s.heard("a")
		b, _ := s.heard("b")
		if n != 2 || a != 5 || b != 5 {
			t.Errorf("%d acknowledgements, of versions %s and %s; want one of each object, of version 5", n, a, b)
		}
		s.put("a", 6)
		synctest.Wait()
		f.l.end() // at once
		synctest.Wait()
		if v, _ := s.heard("a"); v != 6 {
			t.Errorf("a client that leaves has acknowledged version %s of 6", v)
		}
	})
}

func TestUnknownVersionIsAlwaysToldAndTheSameVersionAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newObjectServer(t)
		s.put("a", 7)
		var got []Signal
		f := follow(t, s)
		err := f.o.Register(func(_ context.Context, s *Signal) error { got = append(got, *s); return nil }, "a")
		if err != nil {
			t.Fatal(err)
		}
		f.run()
		for _, sig := range []*Signal{
			{Group: "g", Object: "a", Unknown: true},
			{Group: "g", Object: "a", Unknown: true},
			{Group: "g", Object: "a", Version: 6},
			{Group: "g", Object: "a", Version: 7},
			{Group: "g", Object: "a", Unknown: true, Version: 7},
			{Group: "g", Object: "a", Version: 7},
			{Group: "g", Object: "a", Version: 8},
		} {
			s.conn.in <- serverFrame{Object: sig}
			synctest.Wait()
		}
		var text string
		for _, g := range got {
			text += fmt.Sprintf("%s %t; ", g.Version, g.Unknown)
		}
		if want := "7 false; 0 true; 0 true; 7 false; 7 true; 8 false; "; text != want {
			t.Errorf("got %s\nwant %s", text, want)
		}
		f.l.end()
	})
}

func TestServerThatLostEverythingIsToldWithinAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newObjectServer(t)
		f := follow(t, s)
		var names []string
		for i := range 1000 {
			names = append(names, fmt.Sprintf("o%04d", i))
		}
		f.register(names...)
		f.run()
		f.agreed(names...)
		s.mu.Lock()
		clear(s.set)
		s.mu.Unlock()
		time.Sleep(31 * time.Second)
		f.agreed(names...)
		if s.resets != 1 {
			t.Errorf("%d resets", s.resets)
		}
		s.mu.Lock() // repeated on the next connection at once
		clear(s.set)
		s.mu.Unlock()
		s.drop()
		f.agreed(names...)
		f.l.end()
	})
}

func TestQuickChangesOfMindEndAsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newObjectServer(t)
		s.delay = 100 * time.Millisecond
		f := follow(t, s)
		f.run()
		for range 5 {
			f.register("a", "b")
			synctest.Wait()
			f.unregister("a")
			synctest.Wait()
			f.unregister("b")
			f.register("b")
			synctest.Wait()
		}
		time.Sleep(time.Second)
		f.agreed("b")
		if s.resets != 0 {
			t.Errorf("%d resets", s.resets)
		}
		f.l.end()
	})
}

func TestSuccessThatContradictsTheWishIsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newObjectServer(t)
		f := follow(t, s)
		f.register("a")
		f.run()
		f.agreed("a")
		s.mu.Lock() // a lost unregistration: the server still has an object from an earlier time
		s.set[objectKey{"g", "old"}] = true
		s.send(serverFrame{Registered: &registered{Objects: []string{"old"}, Digest: s.digest()}})
		s.mu.Unlock()
		time.Sleep(3 * time.Second)
		f.agreed("a")
		f.l.end()
	})
}

func TestRefusedRegistrationsAreLeftOrTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newObjectServer(t)
		s.refuse["never"] = &registrationFailed{Code: "forbidden"}
		s.refuse["later"] = &registrationFailed{Code: "unavailable", Transient: true}
		var told []string
		f := follow(t, s, OnRegistration(func(o ObjectStatus) { told = append(told, fmt.Sprint(o.Object, " ", o.Status, " ", o.Err)) }))
		f.register("a", "never", "later")
		f.run()
		time.Sleep(time.Minute)
		if st := f.o.Status("never"); st.Status != Refused || st.Err == nil {
			t.Errorf("never is %+v", st)
		}
		if st := f.o.Status("later"); st.Status != PendingRegistration || st.Err == nil {
			t.Errorf("later is %+v", st)
		}
		s.mu.Lock()
		delete(s.refuse, "later")
		s.mu.Unlock()
		time.Sleep(5 * time.Minute)
		if got := s.has(); !slices.Equal(got, []string{"a", "later"}) {
			t.Errorf("the server has %v", got)
		}
		if st := f.o.Status("later"); st.Status != Registered || st.Err != nil {
			t.Errorf("later is %+v", st)
		}
		if s.resets != 0 {
			t.Errorf("%d resets: a refusal leaves both digests", s.resets)
		}
		if err := f.o.Settled(t.Context()); err != nil {
			t.Error(err)
		}
		if !slices.Contains(told, "never refused server refused the registration for g/never: forbidden") || !slices.Contains(told, "later registered <nil>") {
			t.Errorf("told %q", told)
		}
		f.l.end()
	})
}

func TestFailedHandlerIsCalledAgainWithTheNewestVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newObjectServer(t)
		s.put("a", 1)
		var got []Version
		f := follow(t, s)
		err := f.o.Register(func(_ context.Context, s *Signal) error {
			if got = append(got, s.Version); len(got) < 3 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}, "a")
		if err != nil {
			t.Fatal(err)
		}
		f.run()
		if s.acked[objectKey{"g", "a"}] != 0 {
			t.Error("a failure was acknowledged")
		}
		s.put("a", 2)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if !slices.Equal(got, []Version{1, 2, 2}) || s.acked[objectKey{"g", "a"}] != 2 {
			t.Errorf("called with %v, acknowledged %s", got, s.acked[objectKey{"g", "a"}])
		}
		f.l.end()
	})
}

func TestStateFileOutlivesTheProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	synctest.Test(t, func(t *testing.T) {
		s := newObjectServer(t)
		s.put("a", 7)
		f := follow(t, s, StateFile(file))
		f.register("a", "b", "c")
		f.unregister("c")
		f.run()
		f.agreed("a", "b")
		f.l.end()

		s.put("a", 9)
		next := follow(t, s, StateFile(file))
		if st := next.o.Status("a"); st.Status != Registered || st.Version != 7 {
			t.Errorf("after the restart a is %+v", st)
		}
		next.seen["a"] = 7
		next.run()
		if next.n != 0 {
			t.Error("a handler was called before there was one")
		}
		next.register("a", "b")
		next.agreed("a", "b")
		if next.at("a") != 9 {
			t.Errorf("a is at %s", next.at("a"))
		}
		next.l.end()
		if s.registers != 1 || s.resets != 0 {
			t.Errorf("%d register frames and %d resets in all", s.registers, s.resets)
		}
	})
	other, err := NewObjects("g", StateFile(file))
	if err != nil {
		t.Fatal(err)
	}
	c, err := New("http://127.0.0.1:1", WithToken("t"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Listen(t.Context(), "somebody-else", nil, Follow(other)); err == nil {
		t.Error("another recipient may use the state")
	}
	if err := os.WriteFile(file, []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh, err := NewObjects("g", StateFile(file))
	if err != nil || len(fresh.List()) != 0 {
		t.Errorf("from a broken file: %v, %v", fresh, err)
	}
	if b, err := os.ReadFile(file + ".bad"); err != nil || string(b) != "{half" {
		t.Errorf("set aside: %q, %v", b, err)
	}
}

// countChanges counts the objects in register and unregister frames.
func countChanges(frames []*clientFrame) (in, out int) {
	for _, f := range frames {
		if f.Register != nil {
			in += len(f.Register.Objects)
		}
		if f.Unregister != nil {
			out += len(f.Unregister.Objects)
		}
	}
	return in, out
}

func TestStaleAgreementLeavesAWishThatWasNotSent(t *testing.T) {
	now, a := time.Now(), objectKey{"g", "a"}
	handle := func(context.Context, *Signal) error { return nil }
	k := newRegistrations("g")
	k.want(a, handle)
	k.welcomed(formatDigest(a.hash()), now)
	k.drop(a)
	if in, out := countChanges(k.take(now, false)); in != 0 || out != 1 {
		t.Fatalf("sent %d and %d", in, out)
	}
	k.want(a, handle)
	k.compare(formatDigest(a.hash()), now) // said before the unregistration arrived
	if in, _ := countChanges(k.take(now, false)); in != 1 {
		t.Error("the registration was not sent: the server is about to drop it")
	}
}

func TestFramesOfLostConnectionAreSentAgain(t *testing.T) {
	now := time.Now()
	k := newRegistrations("g")
	k.want(objectKey{"g", "a"}, func(context.Context, *Signal) error { return nil })
	for range 2 {
		if frames := k.take(now, false); len(frames) > 0 {
			t.Errorf("%d frames before the welcome", len(frames))
		}
		k.welcomed(formatDigest(0), now)
		if in, _ := countChanges(k.take(now, false)); in != 1 {
			t.Errorf("registered %d", in)
		}
		k.lost()
	}
}

func TestSettledWaitsForTheConnectionThatIsToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, newObjectServer(t))
		f.register("a")
		f.run()
		f.agreed("a")
		f.l.end()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if f.o.Settled(ctx) == nil {
			t.Error("settled without a connection")
		}
		f.run()
		if err := f.o.Settled(t.Context()); err != nil {
			t.Error(err)
		}
		f.l.end()
	})
}
