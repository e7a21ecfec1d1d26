package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/config"
)

// serveShop has a worker answer the calls of the service "shop" with what it got.
func serveShop(t *testing.T, a *app.App) {
	t.Helper()
	c, err := godwit.New("http://"+a.Addresses().HTTP, godwit.WithAPIKey("dev"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	serving, ended := make(chan struct{}), make(chan error, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/none":
			w.WriteHeader(http.StatusNoContent)
			return
		case "/parts":
			w.Header().Set("Content-Type", "multipart/x-mixed-replace")
		case "/panics":
			panic("a secret")
		case "/fails":
			w.WriteHeader(http.StatusBadGateway)
		}
		w.Header().Set("Set-Cookie", "a=b; Path=/")
		w.Header().Set("Connection", "close")
		fmt.Fprintf(w, "%s %s %s %q", r.Method, r.RequestURI, body, slices.Sorted(maps.Keys(r.Header)))
		fmt.Fprint(w, r.Header.Get("Godwit-Key"), r.Header.Get("Godwit-Client-Addr"), r.Header["X"])
	})
	go func() {
		ended <- c.Serve(ctx, "shop-1", []string{"shop.>"}, godwit.HTTP(handler), godwit.OnServing(func() { close(serving) }))
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	<-serving
}

// wired is a connection with raw bytes.
type wired struct {
	*testing.T
	nc *net.TCPConn
	in *bufio.Reader
}

func connect(t *testing.T, addr string) *wired {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(2 * time.Minute))
	return &wired{t, nc.(*net.TCPConn), bufio.NewReader(nc)}
}

// answers sends requests and describes the answers, up to the last or the end of the connection.
func (c *wired) answers(raw string, methods ...string) string {
	c.Helper()
	_, _ = io.WriteString(c.nc, raw) // the server may close before it has read all
	var all strings.Builder
	for _, method := range methods {
		resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
		if err != nil {
			all.WriteString("no answer\n")
			break
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		resp.Header.Del("Date")
		fmt.Fprintln(&all, resp.Status, resp.ContentLength, resp.Header, resp.Close, string(body), err)
	}
	return all.String()
}

const shopHead = " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer dev\r\n"

const firstCall = "GET /gw/shop/first" + shopHead + "\r\n"

// TestCallsAreAnsweredAlikeByBothServers sends requests on new connections, which net/http reads, and on connections that were handed over
// after a first call.
func TestCallsAreAnsweredAlikeByBothServers(t *testing.T) {
	a := start(t, settings(t))
	serveShop(t, a)
	const get, post = http.MethodGet, http.MethodPost
	for name, c := range map[string]struct {
		raw     string
		methods []string
	}{
		"a call":          {"GET /gw/shop/a?b=c" + shopHead + "X: 1\r\nX: 2\r\n\r\n", []string{get}},
		"a body":          {"POST /gw/shop/a" + shopHead + "Content-Length: 5\r\nContent-Type: text/x\r\n\r\nhello", []string{post}},
		"several ahead":   {strings.Repeat(firstCall, 20), slices.Repeat([]string{get}, 20)},
		"HEAD":            {"HEAD /gw/shop/a" + shopHead + "\r\n" + firstCall, []string{http.MethodHead, get}},
		"no content":      {"GET /gw/shop/none" + shopHead + "\r\n" + firstCall, []string{get, get}},
		"a failure":       {"GET /gw/shop/fails" + shopHead + "\r\n" + firstCall, []string{get, get}},
		"a refused type":  {"GET /gw/shop/parts" + shopHead + "\r\n" + firstCall, []string{get, get}},
		"nobody":          {"GET /gw/nobody/a" + shopHead + "\r\n" + firstCall, []string{get, get}},
		"no service":      {"GET /gw/a%20b/a" + shopHead + "\r\n" + firstCall, []string{get, get}},
		"a wrong key":     {strings.Replace(firstCall, "dev", "wrong", 1) + firstCall, []string{get, get}},
		"no key":          {strings.Replace(firstCall, "Authorization", "X", 1) + firstCall, []string{get, get}},
		"a worker's page": {strings.Replace(firstCall, "\r\n\r\n", "\r\nService-Worker: script\r\n\r\n", 1) + firstCall, []string{get, get}},
		"chunks":          {"POST /gw/shop/a" + shopHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", []string{post}},
		"a long body":     {"POST /gw/shop/a" + shopHead + "Content-Length: 300000\r\n\r\n" + strings.Repeat("x", 300_000) + firstCall, []string{post, get}},
		"long headers":    {"GET /gw/shop/a" + shopHead + "X: " + strings.Repeat("x", 5000) + "\r\n\r\n" + firstCall, []string{get, get}},
		"other headers":   {"GET /gw/shop/a" + shopHead + "Forwarded: for=1\r\nCookie: a=b\r\nConnection: keep-alive\r\nPragma: no-cache\r\n\r\n", []string{get}},
		"another host":    {strings.Replace(firstCall, "localhost", "evil.example", 1) + firstCall, []string{get, get}},
		"the last":        {strings.Replace(firstCall, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1) + firstCall, []string{get, get}},
		"the API":         {firstCall + "GET /v1/keys" + shopHead + "\r\n" + firstCall, []string{get, get, get}},
	} {
		t.Run(name, func(t *testing.T) {
			want := connect(t, a.Addresses().HTTP).answers(c.raw, c.methods...)
			over := connect(t, a.Addresses().HTTP)
			if first := over.answers(firstCall, get); !strings.HasPrefix(first, "200") {
				t.Fatal(first)
			}
			if got := over.answers(c.raw, c.methods...); got != want {
				t.Errorf("net/http alone answers\n%s\nafter a call it is\n%s", want, got)
			}
		})
	}
}

// TestAHandedOverConnectionServesWhatItsOriginServes calls the gateway at its own host, and then publishes there.
func TestAHandedOverConnectionServesWhatItsOriginServes(t *testing.T) {
	byHost, byListener := settings(t), settings(t)
	byHost.GatewayURL = "https://gw.localhost"
	byListener.GatewayAddr = "127.0.0.1:0"
	atHost, atListener := start(t, byHost), start(t, byListener)
	serveShop(t, atHost)
	serveShop(t, atListener)
	publish := "POST /v1/notifications HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer dev\r\nContent-Length: 23\r\n\r\n" + `{"to":"a","title":"Hi"}`
	call := "GET /gw/shop/a HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer dev\r\n\r\n"
	for _, c := range []struct {
		a          *app.App
		onListener bool
		host       string
		calls      bool
	}{
		{atHost, false, "gw.localhost", true},
		{atHost, false, "localhost", false},
		{atListener, true, "localhost", true},
		{atListener, false, "localhost", false},
	} {
		addr := c.a.Addresses().HTTP
		if c.onListener {
			addr = c.a.Addresses().Gateway
		}
		served, refused := call, publish
		if !c.calls {
			served, refused = publish, call
		}
		raw := strings.ReplaceAll(strings.Repeat(served, 3)+refused+"GET /v1/keys HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer dev\r\n\r\n"+served, "HOST", c.host)
		got := connect(t, addr).answers(raw, slices.Repeat([]string{http.MethodGet}, 6)...)
		var statuses []string
		for line := range strings.Lines(got) {
			if len(line) > 3 && line[3] == ' ' {
				statuses = append(statuses, line[:3])
			}
		}
		want := []string{"200", "200", "200", "404", "404", "200"}
		if !c.calls {
			want = []string{"201", "201", "201", "404", "200", "201"}
		}
		if !slices.Equal(statuses, want) {
			t.Errorf("%s, listener %v: %v, want %v\n%s", c.host, c.onListener, statuses, want, got)
		}
	}
}

// heldWorker serves the service "shop" with a handler that says when it was asked, and answers when it may; calls of /late at once.
type heldWorker struct{ asked, goOn chan struct{} }

func holdShop(t *testing.T, a *app.App) *heldWorker {
	t.Helper()
	c, err := godwit.New("http://"+a.Addresses().HTTP, godwit.WithAPIKey("dev"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &heldWorker{asked: make(chan struct{}, 4), goOn: make(chan struct{}, 4)}
	serving, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- c.Serve(ctx, "shop-1", []string{"shop.>"}, func(_ context.Context, r *godwit.Request) (*godwit.Answer, error) {
			if r.Path != "/late" {
				w.asked <- struct{}{}
				<-w.goOn
			}
			return &godwit.Answer{Data: []byte("done")}, nil
		}, godwit.OnServing(func() { close(serving) }))
	}()
	t.Cleanup(func() {
		close(w.goOn)
		cancel()
		<-ended
	})
	<-serving
	return w
}

// TestAStopAnswersCallsUnderWay stops the server while calls of a new connection and of a handed over one are with their worker.
func TestAStopAnswersCallsUnderWay(t *testing.T) {
	conf := settings(t)
	conf.Grace = config.Duration(time.Minute)
	a := start(t, conf)
	w := holdShop(t, a)
	fresh, over := connect(t, a.Addresses().HTTP), connect(t, a.Addresses().HTTP)
	w.goOn <- struct{}{}
	over.answers(firstCall, http.MethodGet)
	<-w.asked
	for _, c := range []*wired{fresh, over} {
		if _, err := io.WriteString(c.nc, firstCall); err != nil {
			t.Fatal(err)
		}
		<-w.asked
	}
	const lateCall = "GET /gw/shop/late" + shopHead + "\r\n"
	late := connect(t, a.Addresses().HTTP)
	late.answers(lateCall, http.MethodGet)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop(t, a)
	}()
	for got := ""; !strings.Contains(got, "nobody-serves"); { // then the worker has left its queue
		if got = late.answers(lateCall, http.MethodGet); strings.Contains(got, "no answer") {
			t.Fatal("the server ended a connection before calls under way had their answers")
		}
	}
	w.goOn <- struct{}{}
	w.goOn <- struct{}{}
	for _, c := range []*wired{fresh, over} {
		if got := c.answers("", http.MethodGet); !strings.Contains(got, "done") {
			t.Errorf("the call under way got %s", got)
		}
	}
	<-stopped
}

// TestACallerThatSendsNothingMoreGetsAnAnswer closes the caller's direction of the connection after a call. net/http takes that for the end of
// the caller, and must not answer it with a status that says otherwise.
func TestACallerThatSendsNothingMoreGetsAnAnswer(t *testing.T) {
	a := start(t, settings(t))
	w := holdShop(t, a)
	fresh, over := connect(t, a.Addresses().HTTP), connect(t, a.Addresses().HTTP)
	w.goOn <- struct{}{}
	over.answers(firstCall, http.MethodGet)
	<-w.asked
	half := func(c *wired) {
		if _, err := io.WriteString(c.nc, firstCall); err != nil {
			t.Fatal(err)
		}
		<-w.asked
		_ = c.nc.CloseWrite()
	}
	half(fresh)
	if got := fresh.answers("", http.MethodGet); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "canceled") {
		t.Errorf("net/http answered %s", got)
	}
	w.goOn <- struct{}{}
	half(over)
	w.goOn <- struct{}{}
	if got := over.answers("", http.MethodGet); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "done") {
		t.Errorf("the event loop answered %s", got)
	}
}

// TestAPanicOfAHandlerEndsItsCallAlone calls a handler that panics, on the goroutine of the call and on the reader's.
func TestAPanicOfAHandlerEndsItsCallAlone(t *testing.T) {
	a := start(t, settings(t))
	serveShop(t, a)
	c := connect(t, a.Addresses().HTTP)
	for range 3 {
		if got := c.answers("GET /gw/shop/panics"+shopHead+"\r\n", http.MethodGet); !strings.HasPrefix(got, "500") || strings.Contains(got, "secret") {
			t.Errorf("a handler that panicked answered %s", got)
		}
		for range 100 { // so many quick calls are run by the reader
			if got := c.answers(firstCall, http.MethodGet); !strings.HasPrefix(got, "200") {
				t.Fatalf("after a panic a call got %s", got)
			}
		}
	}
}
