package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

const dev = "dev" // the key of a development server

// workerURL is the environment variable that makes this test binary a worker: it serves "jobs" and prints a line for each job done.
const workerURL = "GODWIT_TEST_WORKER_URL"

func work(address string) {
	c, err := godwit.New(address, godwit.WithAPIKey(dev))
	if err != nil {
		panic(err)
	}
	err = c.Serve(context.Background(), "worker", []string{"jobs"}, func(_ context.Context, r *godwit.Request) (*godwit.Answer, error) {
		fmt.Printf("did %s\n", r.Data)
		return &godwit.Answer{Data: r.Data}, nil
	}, godwit.Window(256), godwit.OnServing(func() { fmt.Println("ready") }))
	fmt.Fprintln(os.Stderr, err)
}

// worker is a process that does jobs.
type worker struct {
	cmd   *exec.Cmd
	did   sync.Map // how often, by job
	count atomic.Int64
	twice atomic.Int64
	ended chan struct{}
}

func startWorker(t *testing.T, address string) *worker {
	t.Helper()
	w := &worker{cmd: exec.CommandContext(t.Context(), os.Args[0]), ended: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), workerURL+"="+address)
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go func() {
		defer close(w.ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			job, isJob := strings.CutPrefix(s.Text(), "did ")
			switch {
			case !isJob:
				close(ready)
			default:
				if _, again := w.did.LoadOrStore(job, true); again {
					w.twice.Add(1)
				}
				w.count.Add(1)
			}
		}
		_ = w.cmd.Wait()
	}()
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("the worker did not connect")
	}
	return w
}

// TestKilledWorkerLeavesEveryCallerWithOneAnswer kills a worker while 1,000 requests a second are made.
func TestKilledWorkerLeavesEveryCallerWithOneAnswer(t *testing.T) {
	blackbox.Long(t)
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	address := "http://" + s.HTTP
	w := startWorker(t, address)
	other := startWorker(t, address)
	const rate, seconds, timeout = 1000, 4, 2 * time.Second
	transport := &http.Transport{MaxIdleConnsPerHost: 1000, MaxConnsPerHost: 1000}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var mu sync.Mutex
	statuses := map[int]int{}
	var slowest time.Duration
	var callers sync.WaitGroup
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	n := 0
	for n < rate*seconds {
		<-tick.C
		switch n {
		case rate * seconds / 4:
			_ = w.cmd.Process.Kill()
		case rate * seconds / 2:
			_ = other.cmd.Process.Kill()
		}
		for range rate / 100 {
			job := fmt.Sprint(n)
			n++
			callers.Go(func() {
				begun := time.Now()
				status := ask(t, client, address+"/v1/requests/jobs?timeout="+timeout.String(), job)
				took := time.Since(begun)
				mu.Lock()
				defer mu.Unlock()
				statuses[status]++
				slowest = max(slowest, took)
			})
		}
	}
	callers.Wait()
	<-w.ended
	<-other.ended
	t.Logf("answers by status: %v; the slowest took %s; the workers did %d and %d", statuses, slowest, w.count.Load(), other.count.Load())
	total := 0
	for status, k := range statuses {
		if !slices.Contains([]int{200, 503, 504}, status) {
			t.Errorf("%d callers got %d", k, status)
		}
		total += k
	}
	if total != n || statuses[200] == 0 || statuses[503] == 0 {
		t.Errorf("%d answers to %d requests, by status %v", total, n, statuses)
	}
	if twice := w.twice.Load() + other.twice.Load(); twice > 0 {
		t.Errorf("%d jobs were done twice by one worker", twice)
	}
	w.did.Range(func(job, _ any) bool {
		if _, both := other.did.Load(job); both {
			t.Errorf("job %v was done by both workers", job)
		}
		return true
	})
	// How exactly a timeout is kept depends on the machine's load; callers rely on its being kept at all.
	if slowest > timeout+blackbox.Patience {
		t.Errorf("the slowest answer took %s of %s", slowest, timeout)
	}
}

func ask(t *testing.T, c *http.Client, address, body string) int {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+dev)
	resp, err := c.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode == http.StatusOK && string(got) != body {
		t.Errorf("%s was answered with %q, %v", body, got, err)
	}
	return resp.StatusCode
}

// echo answers with the request that it got, and with the status, headers and body that the call requests.
func echo(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	body, _ := io.ReadAll(r.Body)
	for _, name := range []string{"X-One", "X-Two", "Accept", "Content-Type", "If-None-Match"} {
		for _, v := range r.Header.Values(name) {
			h.Add("Saw-"+name, v)
		}
	}
	h.Set("Saw", r.Method+" "+r.URL.EscapedPath()+"?"+r.URL.RawQuery)
	h["Set-Cookie"] = r.Header["X-Cookie"]
	h["Link"] = []string{"<a>", "<b>; rel=next"}
	h.Set("Content-Type", "application/octet-stream")
	status := 200
	_, _ = fmt.Sscan(r.Header.Get("X-Status"), &status)
	w.WriteHeader(status)
	if status != http.StatusNoContent && status != http.StatusNotModified {
		_, _ = w.Write(body)
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || name == "Authorization" || name == "Cookie" || name == "Forwarded" {
			panic("the gateway let " + name + " through")
		}
	}
}

// TestGatewayChangesNothing makes random calls to a plain handler and to the same handler behind the gateway. The gateway has a listener of
// its own: on the console's it keeps workers' pages and cookies away.
func TestGatewayChangesNothing(t *testing.T) {
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--gateway-addr", "127.0.0.1:0"))
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL, _ = url.ParseRequestURI(strings.TrimPrefix(r.RequestURI, "/gw/echo")) // the gateway removes this prefix, too
		echo(w, r)
	}))
	defer plain.Close()
	c, err := godwit.New("http://"+s.HTTP, godwit.WithAPIKey(dev))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	ready := make(chan struct{})
	serving.Go(func() {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" && r.Header.Get("Godwit-Key") != dev || r.Header.Get("Godwit-Recipient") != "" || r.URL.Path != "/" && r.Header.Get("Godwit-Client-Addr") != "127.0.0.1" {
				t.Errorf("it was told that %v calls", r.Header)
			}
			echo(w, r)
		})
		_ = c.Serve(ctx, "worker", []string{"echo.>"}, godwit.HTTP(handler), godwit.OnServing(func() { close(ready) }))
	})
	<-ready
	calls := 300
	if thorough.Run() {
		calls = 10_000
	}
	rnd := mrand.New(mrand.NewPCG(1, 2))
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	at, err := s.Addresses()
	if err != nil || at.Gateway == "" {
		t.Fatalf("the gateway does not listen: %+v, %v", at, err)
	}
	behind := "http://" + at.Gateway + "/gw/echo"
	for i := range calls {
		call := randomCall(rnd, i%50 == 0)
		want, err := call.do(client, plain.URL+"/gw/echo", false)
		if err != nil {
			t.Fatal(err)
		}
		var got *seen
		if got, err = call.do(client, behind, true); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("call %d, %s %s: behind the gateway %d and %d bytes, without %d and %d bytes;%s", i, call.method, call.path, got.status, len(got.body), want.status, len(want.body), difference(got.header, want.header))
		}
	}
}

// difference names the headers that differ.
func difference(got, want http.Header) (text string) {
	for _, h := range []http.Header{got, want} {
		for name := range h {
			if !slices.Equal(got[name], want[name]) {
				text += fmt.Sprintf(" %s is %.100q, without %.100q;", name, got[name], want[name])
			}
		}
	}
	return text
}

type echoCall struct {
	method, path string
	header       http.Header
	body         []byte
}

type seen struct {
	status int
	header http.Header
	body   []byte
}

func randomCall(rnd *mrand.Rand, large bool) *echoCall {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	c := &echoCall{method: pick("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"), header: make(http.Header)}
	for range rnd.IntN(16) {
		c.path += "/" + pick("a", "b.c", "%2F", "%20", "é", "", "..", "x~y", "%C3%28", "17", "*", "_", ">")
	}
	if c.path == "" {
		c.path = "/"
	}
	if rnd.IntN(2) == 0 {
		c.path += "?" + pick("a=1&a=2", "q=%20+x", "", "token=secret", "a;b", "=&&")
	}
	for _, name := range []string{"X-One", "X-Two"} {
		for range rnd.IntN(4) {
			c.header.Add(name, pick("1", "two words", "", "é", "a=b; Path=/", strings.Repeat("z", 500)))
		}
	}
	for range rnd.IntN(4) {
		c.header.Add("X-Cookie", pick("a=b; Path=/", "empty=", "long="+strings.Repeat("z", 500)+"; Secure; HttpOnly"))
	}
	c.header.Set("X-Status", pick("200", "201", "204", "304", "302", "404", "418", "500", "503"))
	for _, forged := range []string{"Godwit-Key", "Godwit-Recipient", "Godwit-Client-Addr", "Godwit-Status", "X-Forwarded-For", "Forwarded", "Cookie"} {
		if rnd.IntN(3) == 0 {
			c.header.Set(forged, "forged")
		}
	}
	if c.method != "GET" && c.method != "HEAD" && rnd.IntN(3) > 0 {
		n := rnd.IntN(2000)
		if large {
			n = 1 << 20
		}
		c.body = make([]byte, n)
		_, _ = rand.Read(c.body)
		c.header.Set("Content-Type", pick("application/octet-stream", "application/json", "text/plain; charset=utf-8"))
	}
	return c
}

// do makes the call. It removes values from the result that differ between servers.
func (c *echoCall) do(client *http.Client, base string, keyed bool) (*seen, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(c.path, "?")
	req := &http.Request{Method: c.method, URL: &url.URL{Scheme: u.Scheme, Host: u.Host, Opaque: u.Path + path, RawQuery: query}, Host: u.Host, Header: c.header.Clone()}
	if c.body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(c.body)), int64(len(c.body))
	}
	if keyed {
		req.Header.Set("Authorization", "Bearer "+dev)
	} else {
		for name := range req.Header {
			if strings.HasPrefix(name, "Godwit-") || strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" || name == "Cookie" {
				req.Header.Del(name) // a plain handler trusts these headers
			}
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	s := &seen{status: resp.StatusCode, header: resp.Header}
	if s.body, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	s.header.Del("Date")
	s.header.Del("Content-Length") // a plain handler sends large bodies in chunks
	return s, nil
}
