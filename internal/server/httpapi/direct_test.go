package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/eventually"
)

// TestRequestSentBeforeHandoverIsAnswered sends a request of which net/http has read a part before the handover.
func TestRequestSentBeforeHandoverIsAnswered(t *testing.T) {
	w, d := directly(t)
	c := w.wire()
	c.send(strings.Repeat(post(w.key, `{"to":"a","title":"Hi"}`), 100))
	for range 100 {
		c.want(http.StatusCreated)
	}
	if s := d.Stats(); s.Exchanges != 99 {
		t.Errorf("%d publishes were answered off net/http, want 99", s.Exchanges)
	}
}

func TestARequestInPartsIsAnsweredWhenItIsWhole(t *testing.T) {
	w, d := directly(t)
	c := w.primed()
	p := post(w.key, `{"to":"a","title":"Hi"}`)
	for i := range len(p) {
		c.send(p[i : i+1])
	}
	c.want(http.StatusCreated)
	c.send(p)
	c.want(http.StatusCreated)
	if s := d.Stats(); s.Exchanges+s.Returned == 0 {
		t.Error("the connection was not handed over")
	}
}

// TestASlowRequestGoesBack sends a request that is not whole a second after its first byte: net/http gets it back and waits longer.
func TestASlowRequestGoesBack(t *testing.T) {
	w, d := directly(t)
	c := w.primed()
	p := post(w.key, `{"to":"a","title":"Hi"}`)
	c.send(p[:len(p)-3])
	eventually.True(t, "the connection goes back", func() bool { return d.Stats().Returned == 1 })
	c.send(p[len(p)-3:])
	c.want(http.StatusCreated)
}

func TestAConnectionThatWentBackComesAgainOnceItIsWorthIt(t *testing.T) {
	w, d := directly(t)
	c := w.primed()
	c.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	c.want(http.StatusOK)
	for range 33 {
		if s := d.Stats(); s.Taken != 1 {
			t.Fatalf("taken over %d times before it was worth it", s.Taken)
		}
		c.send(post(w.key, `{"to":"a","title":"Hi"}`))
		c.want(http.StatusCreated)
	}
	eventually.True(t, "the connection is taken over again", func() bool { return d.Stats().Taken == 2 })
	c.send(post(w.key, `{"to":"a","title":"Hi"}`))
	c.want(http.StatusCreated)
	if s := d.Stats(); s.Exchanges != 1 || s.Connections != 1 {
		t.Errorf("after it came again: %+v", s)
	}
}

func TestARevokedKeyIsRefusedOnAConnectionThatUsedIt(t *testing.T) {
	w, d := directly(t)
	c := w.primed()
	key, secret, err := w.access.CreateKey(t.Context(), "shop", "test", 2)
	if err != nil {
		t.Fatal(err)
	}
	c.send(post(secret, `{"to":"a","title":"Hi"}`))
	c.want(http.StatusCreated)
	if err := w.access.DeleteKey(t.Context(), "shop", key.ID); err != nil {
		t.Fatal(err)
	}
	c.send(post(secret, `{"to":"a","title":"Hi"}`))
	if text := c.want(http.StatusUnauthorized); !strings.Contains(text, `Bearer realm="godwit"`) {
		t.Errorf("refused with %s", text)
	}
	c.send(post(w.key, `{"to":"a","title":"Hi"}`))
	c.want(http.StatusCreated)
	if s := d.Stats(); s.Exchanges != 3 {
		t.Errorf("%d publishes were answered off net/http, want 3", s.Exchanges)
	}
}

// TestAShutdownAnswersWhatIsUnderWay shuts down during a publish: it is answered with the announcement that the connection ends. An idle
// connection is closed at once.
func TestAShutdownAnswersWhatIsUnderWay(t *testing.T) {
	w, d := directly(t)
	idle, busy := w.primed(), w.primed()
	eventually.True(t, "both are handed over", func() bool { return d.Stats().Connections == 2 })
	release := w.mailbox.hold()
	busy.send(post(w.key, `{"to":"a","title":"Hi"}`))
	eventually.True(t, "the publish is with the store", func() bool { return w.mailbox.held() == 1 })
	var down sync.WaitGroup
	var err error
	down.Go(func() { err = d.Shutdown(context.Background()) })
	if status, _ := idle.read(); status != 0 {
		t.Errorf("an idle connection got %d", status)
	}
	release()
	if text := busy.want(http.StatusCreated); !strings.Contains(text, "Connection [close]") {
		t.Errorf("the last answer is %s", text)
	}
	if status, _ := busy.read(); status != 0 {
		t.Errorf("after the last answer came %d", status)
	}
	busy.nc.Close()
	idle.nc.Close()
	if down.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAShutdownThatRunsOutOfTimeCutsOff(t *testing.T) {
	w, d := directly(t)
	c := w.primed()
	eventually.True(t, "it is handed over", func() bool { return d.Stats().Connections == 1 })
	release := w.mailbox.hold()
	defer release()
	c.send(post(w.key, `{"to":"a","title":"Hi"}`))
	eventually.True(t, "the publish is with the store", func() bool { return w.mailbox.held() == 1 })
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("late")
	cancel(late)
	if err := d.Shutdown(ctx); !errors.Is(err, late) {
		t.Errorf("shutdown: %v", err)
	}
	if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client reads: %v", err)
	}
}

// TestHalfClosedClientIsAnswered sends requests and closes its side: they are answered, however long storing takes.
func TestHalfClosedClientIsAnswered(t *testing.T) {
	w, d := directly(t)
	c := w.primed()
	eventually.True(t, "it is handed over", func() bool { return d.Stats().Connections == 1 })
	release := w.mailbox.hold()
	c.send(strings.Repeat(post(w.key, `{"to":"a","title":"Hi"}`), 3))
	eventually.True(t, "the publish is with the store", func() bool { return w.mailbox.held() == 1 })
	if err := c.nc.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	release()
	for range 3 {
		c.want(http.StatusCreated)
	}
	if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the answers the client reads: %v", err)
	}
}

// TestSlowReaderIsWaitedFor sends requests ahead: they wait while earlier answers are unread, and none is lost.
func TestSlowReaderIsWaitedFor(t *testing.T) {
	w, d := directly(t)
	c := w.primed()
	_ = c.nc.SetReadBuffer(256 << 10)
	const n = 2_500 // answers of 5 KB each: more than the system's buffers hold
	many := strings.Join(slices.Repeat([]string{"someone"}, 40), `","`)
	var sending sync.WaitGroup
	sending.Go(func() {
		_, _ = io.WriteString(c.nc, strings.Repeat(post(w.key, `{"to":["`+many+`"],"id":"x","title":"Hi"}`), n))
	})
	defer func() {
		if t.Failed() {
			t.Logf("%+v, %+v", d.Stats(), w.reactor.Stats())
		}
	}()
	eventually.True(t, "answers wait for the client", func() bool { return w.reactor.Stats().Queued > 0 })
	for i := range n {
		if status, text := c.read(); status != http.StatusOK {
			t.Fatalf("answer %d is %d: %s", i, status, text)
		}
	}
	sending.Wait()
	if s := d.Stats(); s.Exchanges != n {
		t.Errorf("%d publishes were answered off net/http, want %d", s.Exchanges, n)
	}
}

func TestAPanicIsAnsweredAndHarmsNobodyElse(t *testing.T) {
	w, _ := directly(t)
	c := w.primed()
	w.mailbox.setFail(errPanic)
	c.send(post(w.key, `{"to":"a","title":"Hi"}`))
	if text := c.want(http.StatusInternalServerError); strings.Contains(text, "boom") {
		t.Errorf("the client is told %s", text)
	}
	w.mailbox.setFail(nil)
	c.send(post(w.key, `{"to":"a","title":"Hi"}`))
	c.want(http.StatusCreated)
}

func TestIdlePublishersDoNotDelayAStop(t *testing.T) {
	w, d := directly(t)
	c := w.primed()
	// Four seconds are less than the time in which a connection may close its side; this client never closes it.
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := d.Shutdown(ctx); err != nil {
		t.Errorf("the stop waits for a client that does nothing: %v", err)
	}
	if status, text := c.read(); status != 0 {
		t.Errorf("the connection got %d %s, want its end", status, text)
	}
}
