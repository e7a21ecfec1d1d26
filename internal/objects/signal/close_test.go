package signal_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/objects/signal"
)

// holdTouches delays touches on their way to the store until the returned function is called.
func (f *flaky) holdTouches() (release func()) {
	held := make(chan struct{})
	f.touches.Store(&held)
	return func() { f.touches.Store(nil); close(held) }
}

func (f *flaky) Touch(batch []objectstore.Touch, done func(error)) {
	held := f.touches.Load()
	if held == nil {
		f.Store.Touch(batch, done)
		return
	}
	go func() {
		<-*held
		f.Store.Touch(batch, done)
	}()
}

var mainOfUnit1 = objectstore.ClientID{App: app, Recipient: "unit-1", Group: "north", Device: "main"}

// closing starts to close the service, and sends the result on closed when that is done.
func (w *world) closing() (closed chan error) {
	closed = make(chan error, 1)
	go func() { closed <- w.svc.Close() }()
	synctest.Wait()
	return closed
}

func TestCloseWaitsForWhatTheStoreHasYetToAnswer(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		w.put("a", 1)
		u := w.connect("unit-1", "main")
		u.register("a")
		u.told()
		release := w.store.holdTouches()
		u.ack("a", 1)
		u.close()
		time.Sleep(2 * time.Second) // it is being written down
		closed := w.closing()
		if len(closed) > 0 {
			w.Error("it closed before the store had answered: what that starts, nobody waits for")
		}
		release()
		if err := <-closed; err != nil {
			w.Fatal(err)
		}
	})
}

func TestCloseWritesDownWhatWasAcknowledgedDuringTheWriteBefore(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		u.register("a")
		w.put("a", 1)
		w.put("a", 2)
		u.told()
		w.flushed()
		release := w.store.holdTouches()
		u.ack("a", 1)
		time.Sleep(2 * time.Second) // it is being written down
		u.ack("a", 2)
		u.register("b") // the client's set waits for the running save
		u.close()
		closed := w.closing()
		release()
		if err := <-closed; err != nil {
			w.Fatal(err)
		}
		saved, err := w.db.Load(w.Context(), mainOfUnit1)
		if err != nil || saved == nil || len(saved.Keys) != 2 || len(saved.Progress) != 1 || saved.Progress[0].Acked != 2 {
			w.Errorf("%+v is stored, %v; want a and b, and version 2 of a acknowledged", saved, err)
		}
	})
}

func TestCloseWritesDownTheLastAcknowledgement(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		w.put("a", 1)
		u := w.connect("unit-1", "main")
		u.register("a")
		u.told()
		u.ack("a", 1)
		u.close()
		if err := w.svc.Close(); err != nil {
			w.Fatal(err)
		}
		saved, err := w.db.Load(w.Context(), mainOfUnit1)
		if err != nil || saved == nil || len(saved.Progress) != 1 || saved.Progress[0].Acked != 1 {
			w.Errorf("%+v is stored, %v; want version 1 acknowledged", saved, err)
		}
	})
}

func TestNothingBeginsAfterClose(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		if err := w.svc.Close(); err != nil {
			w.Fatal(err)
		}
		w.store.saved = func(*objectstore.Save) { w.Error("a set is given to the store, which may be closed by now") }
		u.register("a")
		u.close()
		synctest.Wait()
	})
}

// TestSessionsMayEndWhileTheServiceCloses is for the race detector: a task that a session starts meanwhile either begins before Close
// waits, or does not begin.
func TestSessionsMayEndWhileTheServiceCloses(t *testing.T) {
	for range 20 {
		inWorld(t, signal.Config{Workers: 1}, func(w *world) {
			u := w.connect("unit-1", "main")
			begin, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				<-begin
				for i := range 100 {
					u.s.Frame(&frame.Client{Kind: frame.KindRegister, Objects: [][]byte{fmt.Append(nil, i)}})
					runtime.Gosched()
				}
				u.close()
			}()
			close(begin)
			if err := w.svc.Close(); err != nil {
				w.Error(err)
			}
			<-ended
		})
	}
}
