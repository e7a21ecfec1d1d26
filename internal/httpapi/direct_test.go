package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"godwit.dev/godwit/internal/httpapi"
	"godwit.dev/godwit/internal/httpapi/direct"
	"godwit.dev/godwit/internal/reactor"
)

// patience is how long a test waits for something that must happen; only a failing test takes that long.
const patience = 2 * time.Minute

// directly starts an API that answers publishes on a reactor after the first of a connection.
func directly(t testing.TB) (*world, *direct.Server) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	r, err := reactor.New(reactor.Config{}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if !r.CanRelease() {
		t.Skip("this system's reactor does not release connections")
	}
	d := direct.New(r, log)
	w := newWorld(t, func(c *httpapi.Config) { c.Direct = d }, func(c *httpapi.Config) { c.PublishLimit = refuseMuch })
	w.reactor = r
	var served sync.WaitGroup
	served.Go(func() { _ = w.srv.Config.Serve(d.Listener()) })
	t.Cleanup(func() {
		_ = d.Shutdown(context.Background())
		served.Wait()
	})
	return w, d
}

// wire is a client that writes bytes.
type wire struct {
	t  testing.TB
	nc *net.TCPConn
	in *bufio.Reader
}

func (w *world) wire() *wire {
	w.t.Helper()
	nc, err := net.Dial("tcp", w.srv.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return &wire{t: w.t, nc: nc.(*net.TCPConn), in: bufio.NewReader(nc)}
}

func (c *wire) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.nc, text); err != nil {
		c.t.Fatal(err)
	}
}

// read reads an answer; empty: the connection has ended.
func (c *wire) read() (status int, text string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, ""
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Header.Del("Date")
	resp.Header.Del("Content-Length") // a long answer may come in chunks
	if resp.Close {
		resp.Header.Set("Connection", "close")
	}
	var b strings.Builder
	fmt.Fprintln(&b, resp.Status)
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		fmt.Fprintln(&b, name, resp.Header[name])
	}
	return resp.StatusCode, normal(fmt.Sprint(b.String(), string(body), err))
}

// want reads an answer of this status.
func (c *wire) want(status int) string {
	c.t.Helper()
	got, text := c.read()
	if got != status {
		c.t.Fatalf("status %d, want %d: %s", got, status, text)
	}
	return text
}

var changing = regexp.MustCompile(`"[0-9A-HJKMNP-TV-Z]{26}"|"20[0-9-]{8}T[0-9:.]*Z"|"seq":[0-9]+`)

// normal leaves out what differs from run to run.
func normal(text string) string { return changing.ReplaceAllString(text, `"…"`) }

// post is a publish as a client sends it.
func post(key, body string, headers ...string) string {
	h := ""
	for _, line := range headers {
		h += line + "\r\n"
	}
	return fmt.Sprintf("POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%sContent-Length: %d\r\n\r\n%s", key, h, len(body), body)
}

// primed is a connection that has published once.
func (w *world) primed() *wire {
	w.t.Helper()
	c := w.wire()
	c.send(post(w.key, `{"to":"first"}`))
	c.want(http.StatusCreated)
	return c
}

// answers is all that is answered to bytes after a first publish, up to the end of the connection.
func (w *world) answers(bytes string) string {
	c := w.primed()
	_, _ = io.WriteString(c.nc, bytes) // a server that has seen enough closes
	_ = c.nc.CloseWrite()
	var all strings.Builder
	for {
		status, text := c.read()
		if status == 0 {
			return all.String()
		}
		all.WriteString(text + "\n---\n")
	}
}

// refuseMuch is a publish limit of keys that nobody has; it is there so that both ways ask.
func refuseMuch(string, int) time.Duration { return 0 }

// twins are an API that net/http serves alone and one that hands publishers over.
func twins(t testing.TB) (alone, handing *world, d *direct.Server) {
	handing, d = directly(t)
	return newWorld(t), handing, d
}

// TestPublishesAreAnsweredAlikeByBothServers sends what is right, what is wrong and what has fooled servers.
func TestPublishesAreAnsweredAlikeByBothServers(t *testing.T) {
	alone, handing, d := twins(t)
	for name, raw := range rawCases {
		t.Run(name, func(t *testing.T) {
			want := alone.answers(raw(alone))
			if got := handing.answers(raw(handing)); got != want {
				t.Errorf("net/http alone answers\n%s\nhanding over\n%s", want, got)
			}
		})
	}
	if s := d.Stats(); s.Exchanges < 20 || s.Returned < 20 {
		t.Errorf("only %d publishes were answered off net/http, and %d connections went back", s.Exchanges, s.Returned)
	}
}

// rawCases are bytes that come after a first publish.
var rawCases = func() map[string]func(*world) string {
	publish := func(body string, headers ...string) func(*world) string {
		return func(w *world) string { return post(w.key, body, headers...) }
	}
	cases := map[string]func(*world) string{
		"one":         publish(`{"to":"a"}`),
		"a list":      publish(`{"to":["a","b"],"data":{"x":1}}`),
		"a long list": publish(`{"to":["` + strings.Join(slices.Repeat([]string{"someone"}, 200), `","`) + `"]}`),
		"a duplicate": func(w *world) string { return strings.Repeat(post(w.key, `{"to":"a","id":"d"}`), 2) },
		"a conflict": func(w *world) string {
			return post(w.key, `{"to":"a","id":"c"}`) + post(w.key, `{"to":"a","id":"c","title":"x"}`)
		},
		"an idempotency key":       func(w *world) string { return strings.Repeat(post(w.key, `{"to":"a"}`, "Idempotency-Key: k"), 2) },
		"a long idempotency key":   publish(`{"to":"a"}`, "Idempotency-Key: "+strings.Repeat("k", 256)),
		"two idempotency keys":     publish(`{"to":"a"}`, "Idempotency-Key: k", "Idempotency-Key: l"),
		"an empty idempotency key": publish(`{"to":"a"}`, "Idempotency-Key: "),
		"an empty body":            publish(``),
		"no JSON":                  publish(`{`),
		"an unknown field":         publish(`{"to":"a","x":1}`),
		"a bad name":               publish(`{"to":"a b"}`),
		"no recipient":             publish(`{}`),
		"a template":               publish(`{"to":"a","template":"none"}`),
		"a step":                   publish(`{"to":"a","escalate":[{"channel":"live"},{"channel":"fcm","after":"5s"}]}`),
		"bad UTF-8":                publish("{\"to\":\"\xff\"}"),
		"another key":              func(w *world) string { return post(w.keys["other"], `{"to":"a"}`) + post(w.key, `{"to":"a"}`) },
		"a key that may not":       func(w *world) string { return post(w.keys["read"], `{"to":"a"}`) + post(w.key, `{"to":"a"}`) },
		"a wrong key":              func(w *world) string { return post("wrong", `{"to":"a"}`) + post(w.key, `{"to":"a"}`) },
		"no key": func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a"}`), "Authorization: Bearer", "X: ", 1)
		},
		"another scheme":       func(w *world) string { return strings.Replace(post(w.key, `{"to":"a"}`), "Bearer", "Basic", 1) },
		"a scheme in capitals": func(w *world) string { return strings.Replace(post(w.key, `{"to":"a"}`), "Bearer", "BEARER", 1) },
		"the most that fits":   publish(`{"to":"a","data":"` + strings.Repeat("x", 200_000) + `"}`),
		"as long as allowed":   publish(`{"to":"a"}` + strings.Repeat(" ", 256<<10-10)),
		"a byte too long":      publish(`{"to":"a"}` + strings.Repeat(" ", 256<<10-9)),
		"many ahead":           func(w *world) string { return strings.Repeat(post(w.key, `{"to":"a"}`), 300) },
		"another host":         func(w *world) string { return strings.Replace(post(w.key, `{"to":"a"}`), "Host: x", "Host: y", 1) },
		"then a read": func(w *world) string {
			return post(w.key, `{"to":"a","id":"r"}`) + "GET /v1/notifications/r?to=a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + w.key + "\r\n\r\n" + post(w.key, `{"to":"b"}`)
		},
		"then a batch": func(w *world) string {
			return strings.Replace(post(w.key, "{\"to\":\"a\"}\n{\"to\":\"b\"}\n"), "notifications", "notifications/batch", 1) + post(w.key, `{"to":"b"}`)
		},
		"then notify": func(w *world) string {
			return strings.Replace(post(w.key, "text"), "notifications", "notify/a", 1) + post(w.key, `{"to":"b"}`)
		},
		"then nothing there": func(w *world) string { return "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" + post(w.key, `{"to":"b"}`) },
		"an app": func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a"}`), "notifications", "notifications?app=other", 1)
		},
		"another method": func(w *world) string { return strings.Replace(post(w.key, `{"to":"a"}`), "POST", "PUT", 1) },
		"a tidy path":    func(w *world) string { return strings.Replace(post(w.key, `{"to":"a"}`), "/v1/", "/v1//", 1) },
		"chunks": func(w *world) string {
			return chunked(w.key, "5\r\n{\"to\"\r\n5\r\n:\"a\"}\r\n0\r\n\r\n") + post(w.key, `{"to":"b"}`)
		},
		"chunks with a trailer": func(w *world) string { return chunked(w.key, "a\r\n{\"to\":\"a\"}\r\n0\r\nX: y\r\n\r\n") },
		"a bad chunk":           func(w *world) string { return chunked(w.key, "z\r\n{\"to\":\"a\"}\r\n0\r\n\r\n") },
		"a chunk too large":     func(w *world) string { return chunked(w.key, "fffffffffffffffff\r\n{\"to\":\"a\"}\r\n0\r\n\r\n") },
		"a chunk of line feeds": func(w *world) string { return chunked(w.key, "a\n{\"to\":\"a\"}\n0\n\n") },
		"an expectation":        publish(`{"to":"a"}`, "Expect: 100-continue"),
		"an odd expectation":    publish(`{"to":"a"}`, "Expect: more"),
		"a close": func(w *world) string {
			return post(w.key, `{"to":"a"}`, "Connection: close") + post(w.key, `{"to":"b"}`)
		},
		"kept alive": func(w *world) string {
			return post(w.key, `{"to":"a"}`, "Connection: keep-alive") + post(w.key, `{"to":"b"}`)
		},
		"HTTP/1.0": func(w *world) string { return strings.Replace(post(w.key, `{"to":"a"}`), "HTTP/1.1", "HTTP/1.0", 1) },
		"HTTP/1.0 kept alive": func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a"}`, "Connection: keep-alive"), "HTTP/1.1", "HTTP/1.0", 1)
		},
		"an upgrade":          publish(`{"to":"a"}`, "Connection: Upgrade", "Upgrade: h2c"),
		"an encoding":         publish(`{"to":"a"}`, "Content-Encoding: gzip"),
		"an empty line first": func(w *world) string { return "\r\n" + post(w.key, `{"to":"a"}`) },
		"rubbish":             func(*world) string { return "rubbish\r\n\r\n" },
		"half a line":         func(*world) string { return "POST /v1/noti" },
		"half a head":         func(w *world) string { return post(w.key, `{"to":"a"}`)[:60] },
		"half a body":         func(w *world) string { p := post(w.key, `{"to":"a"}`); return p[:len(p)-5] },
		"one and half a body": func(w *world) string { p := post(w.key, `{"to":"a"}`); return p + p[:len(p)-5] },
		"nothing":             func(*world) string { return "" },
		"huge headers":        publish(`{"to":"a"}`, "X: "+strings.Repeat("x", 30<<10)),
		"large headers":       publish(`{"to":"a"}`, "X: "+strings.Repeat("x", 8<<10)),
	}
	for name, header := range map[string]string{
		"two lengths": "Content-Length: 3", "two equal lengths": "Content-Length: 10", "a length and chunks": "Transfer-Encoding: chunked",
		"a length and odd chunks": "Transfer-Encoding: xchunked", "chunks twice": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
		"a space before the colon": "Transfer-Encoding : chunked", "a folded header": "X: a\r\n b", "a bare line feed": "X: a\nTransfer-Encoding: chunked",
		"a bare carriage return": "X: a\rb", "a null byte": "X: a\x00b", "two hosts": "Host: y", "a name with a space": "X Y: a", "no colon": "X", "no name": ": a",
		"a trailer": "Trailer: X", "odd bytes": "X: \x80\xff",
	} {
		cases[name] = func(w *world) string { return post(w.key, `{"to":"a"}`, header) + post(w.key, `{"to":"b"}`) }
	}
	for name, length := range map[string]string{"a sign": "+10", "a minus": "-10", "hexadecimals": "0xa", "a list": "10, 10", "an inner space": "1 0", "nothing": "", "zeros": "00010", "too much": "99999999999999999999"} {
		cases["a length with "+name] = func(w *world) string {
			return strings.Replace(post(w.key, `{"to":"a"}`), "Content-Length: 10", "Content-Length: "+length, 1) + post(w.key, `{"to":"b"}`)
		}
	}
	return cases
}()

func chunked(key, chunks string) string {
	return "POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
}

// FuzzBothServers sends the same bytes to both servers; they must answer the same. KEY in them is a key.
func FuzzBothServers(f *testing.F) {
	for _, raw := range rawCases {
		f.Add([]byte(raw(&world{key: "KEY", keys: map[string]string{"other": "KEY", "read": "KEY"}})))
	}
	one, two, _ := twins(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		alone, handing := *one, *two
		alone.t, handing.t = t, t
		if len(raw) > 64<<10 || bytes.Contains(raw, []byte("/v1/events")) {
			t.Skip("takes too long")
		}
		with := func(w *world) string { return strings.ReplaceAll(string(raw), "KEY", w.key) }
		want := alone.answers(with(&alone))
		if got := handing.answers(with(&handing)); got != want {
			t.Errorf("%q: net/http alone answers\n%s\nhanding over\n%s", raw, want, got)
		}
	})
}

// TestWhatIsSentAheadOfTheHandoverIsAnswered: net/http has read some of it by then.
func TestWhatIsSentAheadOfTheHandoverIsAnswered(t *testing.T) {
	w, d := directly(t)
	c := w.wire()
	c.send(strings.Repeat(post(w.key, `{"to":"a"}`), 100))
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
	p := post(w.key, `{"to":"a"}`)
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

// TestASlowRequestGoesBack: one that is not whole a second after its first byte is net/http's again, which waits on.
func TestASlowRequestGoesBack(t *testing.T) {
	w, d := directly(t)
	c := w.primed()
	p := post(w.key, `{"to":"a"}`)
	c.send(p[:len(p)-3])
	until(t, "the connection goes back", func() bool { return d.Stats().Returned == 1 })
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
		c.send(post(w.key, `{"to":"a"}`))
		c.want(http.StatusCreated)
	}
	until(t, "the connection is taken over again", func() bool { return d.Stats().Taken == 2 })
	c.send(post(w.key, `{"to":"a"}`))
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
	c.send(post(secret, `{"to":"a"}`))
	c.want(http.StatusCreated)
	if err := w.access.DeleteKey(t.Context(), "shop", key.ID); err != nil {
		t.Fatal(err)
	}
	c.send(post(secret, `{"to":"a"}`))
	if text := c.want(http.StatusUnauthorized); !strings.Contains(text, `Bearer realm="godwit"`) {
		t.Errorf("refused with %s", text)
	}
	c.send(post(w.key, `{"to":"a"}`))
	c.want(http.StatusCreated)
	if s := d.Stats(); s.Exchanges != 3 {
		t.Errorf("%d publishes were answered off net/http, want 3", s.Exchanges)
	}
}

// TestAShutdownAnswersWhatIsUnderWay: a publish that is being stored is answered, and told that the connection ends; one that is
// idle is closed at once.
func TestAShutdownAnswersWhatIsUnderWay(t *testing.T) {
	w, d := directly(t)
	idle, busy := w.primed(), w.primed()
	until(t, "both are handed over", func() bool { return d.Stats().Connections == 2 })
	release := w.mailbox.hold()
	busy.send(post(w.key, `{"to":"a"}`))
	until(t, "the publish is with the store", func() bool { return w.mailbox.held() == 1 })
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
	until(t, "it is handed over", func() bool { return d.Stats().Connections == 1 })
	release := w.mailbox.hold()
	defer release()
	c.send(post(w.key, `{"to":"a"}`))
	until(t, "the publish is with the store", func() bool { return w.mailbox.held() == 1 })
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

// TestAClientThatClosedItsSideIsAnswered: what it sent before counts, however long storing takes.
func TestAClientThatClosedItsSideIsAnswered(t *testing.T) {
	w, d := directly(t)
	c := w.primed()
	until(t, "it is handed over", func() bool { return d.Stats().Connections == 1 })
	release := w.mailbox.hold()
	c.send(strings.Repeat(post(w.key, `{"to":"a"}`), 3))
	until(t, "the publish is with the store", func() bool { return w.mailbox.held() == 1 })
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

// TestAClientThatDoesNotReadIsWaitedFor: requests that are sent ahead wait while their answers do, and none is lost.
func TestAClientThatDoesNotReadIsWaitedFor(t *testing.T) {
	w, d := directly(t)
	c := w.primed()
	_ = c.nc.SetReadBuffer(256 << 10)
	const n = 2_500 // answers of 5 KB: more than the system takes
	many := strings.Join(slices.Repeat([]string{"someone"}, 40), `","`)
	var sending sync.WaitGroup
	sending.Go(func() {
		_, _ = io.WriteString(c.nc, strings.Repeat(post(w.key, `{"to":["`+many+`"],"id":"x"}`), n))
	})
	defer func() {
		if t.Failed() {
			t.Logf("%+v, %+v", d.Stats(), w.reactor.Stats())
		}
	}()
	until(t, "answers wait for the client", func() bool { return w.reactor.Stats().Queued > 0 })
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
	c.send(post(w.key, `{"to":"a"}`))
	if text := c.want(http.StatusInternalServerError); strings.Contains(text, "boom") {
		t.Errorf("the client is told %s", text)
	}
	w.mailbox.setFail(nil)
	c.send(post(w.key, `{"to":"a"}`))
	c.want(http.StatusCreated)
}

// until waits for a condition that another goroutine makes true.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func TestIdlePublishersDoNotDelayAStop(t *testing.T) {
	w, d := directly(t)
	c := w.primed()
	// Four seconds are less than a connection may take to close its side, which this one does not do.
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := d.Shutdown(ctx); err != nil {
		t.Errorf("the stop waits for a client that does nothing: %v", err)
	}
	if status, text := c.read(); status != 0 {
		t.Errorf("the connection got %d %s, want its end", status, text)
	}
}
