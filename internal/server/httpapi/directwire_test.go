package httpapi_test

import (
	"bufio"
	"context"
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
	"testing"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/server/httpapi/direct"
)

// patience is how long a test waits for something that must happen; only a failing test takes that long.
const patience = 2 * time.Minute

// directly starts an API that answers a connection's publishes on a reactor after the first one.
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
	w := newWorld(t, func(c *setup) { c.Direct = d }, func(c *setup) { c.PublishLimit = refuseMuch })
	w.reactor = r
	var served sync.WaitGroup
	served.Go(func() { _ = w.srv.Config.Serve(d.Listener()) })
	t.Cleanup(func() {
		_ = d.Shutdown(context.Background())
		served.Wait()
	})
	return w, d
}

// wire is a client that writes raw bytes.
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

// want reads an answer and fails if it has another status.
func (c *wire) want(status int) string {
	c.t.Helper()
	got, text := c.read()
	if got != status {
		c.t.Fatalf("status %d, want %d: %s", got, status, text)
	}
	return text
}

var changing = regexp.MustCompile(`"[0-9A-HJKMNP-TV-Z]{26}"|"20[0-9-]{8}T[0-9:.]*Z"|"seq":[0-9]+`)

// normal removes the parts that differ from run to run.
func normal(text string) string { return changing.ReplaceAllString(text, `"…"`) }

// post returns a publish as a client sends it.
func post(key, body string, headers ...string) string {
	h := ""
	for _, line := range headers {
		h += line + "\r\n"
	}
	return fmt.Sprintf("POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%sContent-Length: %d\r\n\r\n%s", key, h, len(body), body)
}

// primed returns a connection that has published once.
func (w *world) primed() *wire {
	w.t.Helper()
	c := w.wire()
	c.send(post(w.key, `{"to":"first","title":"Hi"}`))
	c.want(http.StatusCreated)
	return c
}

// answers returns all answers to bytes sent after a first publish, up to the end of the connection.
func (w *world) answers(bytes string) string {
	c := w.primed()
	_, _ = io.WriteString(c.nc, bytes) // the server may close once it has read enough
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

// cancelTries limits the retries of a request that net/http has cancelled.
const cancelTries = 20

// uncanceled returns net/http's answers, and sends a cancelled request again: net/http cancels a request if it reads the end of the
// client's side before it has answered.
func (w *world) uncanceled(bytes string) (all string) {
	for range cancelTries {
		if all = w.answers(bytes); !strings.Contains(all, `"/problems/canceled"`) {
			break
		}
	}
	return all
}

// refuseMuch is a publish limit that refuses nothing; it makes both servers call a limit.
func refuseMuch(string, int) time.Duration { return 0 }
