package scenario

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	godwit "godwit.dev/godwit/clients/go"
)

// Gateway measures the same handler in three ways: called directly, behind Go's reverse proxy in a process of its own, and as a worker
// behind the gateway. The handler answers at once, or after a delay.
type Gateway struct {
	Common
	For   time.Duration // of each measurement
	Conns int           // number of concurrent callers; a single caller is measured, too
	Works time.Duration // delay of the handler in the second measurement

	parts sync.WaitGroup // processes beside the server
}

// Parts are the processes that this program starts itself as.
const (
	PartHandler = "handler"
	PartProxy   = "proxy"
	PartWorker  = "worker"
)

// ServePart runs one part until ctx ends. It writes its address, or that it serves, to out.
func ServePart(ctx context.Context, out io.Writer, part, target string, works time.Duration) error {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == slowPath {
			time.Sleep(works)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`)
	})
	switch part {
	case PartWorker:
		c, err := godwit.New(target, godwit.WithAPIKey("dev"))
		if err != nil {
			return err
		}
		return c.Serve(ctx, "worker", []string{"bench.>"}, godwit.HTTP(handler), godwit.Window(1024),
			godwit.OnServing(func() { fmt.Fprintln(out, target) }))
	case PartProxy:
		u, err := url.Parse(target)
		if err != nil {
			return err
		}
		p := httputil.NewSingleHostReverseProxy(u)
		p.Transport = &http.Transport{MaxIdleConnsPerHost: 1024}
		return servePart(ctx, out, p)
	case PartHandler:
		return servePart(ctx, out, handler)
	}
	return fmt.Errorf("there is no part %q", part)
}

func servePart(ctx context.Context, out io.Writer, h http.Handler) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	fmt.Fprintln(out, "http://"+ln.Addr().String())
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// part starts a process and waits until it prints its address.
func (g *Gateway) part(ctx context.Context, name, target string) (pid int, address string, err error) {
	args := []string{"gateway-part", name, "--works", g.Works.String()}
	if target != "" {
		args = append(args, "--target", target)
	}
	cmd := exec.CommandContext(ctx, g.Testbed.Self, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, "", err
	}
	if err := cmd.Start(); err != nil {
		return 0, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	g.parts.Go(func() { _ = cmd.Wait() }) // fails because the process is killed when ctx ends
	if err != nil {
		return 0, "", fmt.Errorf("start the %s: %w", name, err)
	}
	return cmd.Process.Pid, strings.TrimSpace(line), nil
}

// The two measurements: the handler answers at once, or after a delay.
const (
	quickPath = "/x"
	slowPath  = "/slow"
)

// way is one of the ways to call the handler.
type way struct {
	name, base string
	pids       []int // of the processes on it
}

// Run measures.
func (g *Gateway) Run(ctx context.Context) (*report.Result, error) {
	r := g.begin("gateway", "One handler: called directly, behind Go's reverse proxy, and behind the gateway",
		set("for", g.For), set("connections", g.Conns), set("handler takes", g.Works))
	r.Compared = true
	return r, g.runs(ctx, func(ctx context.Context, _ int) error {
		ctx, cancel := context.WithCancel(ctx)
		defer g.parts.Wait()
		defer cancel()
		server, err := testbed.StartServer(ctx, g.Testbed.Server)
		if err != nil {
			return err
		}
		defer server.Stop()
		ways, err := g.ways(ctx, server)
		if err != nil {
			return err
		}
		for _, load := range []*load{
			{name: "1 connections", path: quickPath, conns: 1},
			{name: fmt.Sprintf("%d connections", g.Conns), path: quickPath, conns: g.Conns},
		} {
			if _, err := g.measureAll(ctx, r, ways, load); err != nil {
				return err
			}
		}
		return g.slow(ctx, r, ways)
	})
}

// slow measures the handler with a delay: at the highest rate, and at half of the rate that direct calls reach, where no call waits.
func (g *Gateway) slow(ctx context.Context, r *report.Result, ways []way) error {
	if g.Works == 0 {
		return nil
	}
	all := &load{name: fmt.Sprintf("%d connections, the handler takes %s", g.Conns, g.Works), path: slowPath, conns: g.Conns}
	rate, err := g.measureAll(ctx, r, ways, all)
	if err != nil {
		return err
	}
	half := *all
	half.name, half.every = all.name+", at half of its rate when called directly", time.Duration(float64(g.Conns)/(rate/2)*float64(time.Second))
	_, err = g.measureAll(ctx, r, ways, &half)
	return err
}

// slice is how long one way is called before the next one has its turn, so that other work of the machine affects all alike.
const slice = 500 * time.Millisecond

// measureAll measures all ways in turn, and returns the call rate of the first.
func (g *Gateway) measureAll(ctx context.Context, r *report.Result, ways []way, l *load) (rate float64, err error) {
	all := make([]measured, len(ways))
	for i, w := range ways {
		m := &all[i]
		m.caller = caller{transport: &http.Transport{MaxIdleConnsPerHost: l.conns, MaxConnsPerHost: l.conns}, address: w.base + l.path, load: l}
		defer m.transport.CloseIdleConnections()
		if _, err := m.call(ctx, warming, true); err != nil {
			return 0, fmt.Errorf("%s: %w", w.name, err)
		}
	}
	for left := g.For; left > 0; left -= slice {
		for i, w := range ways {
			if err := all[i].add(ctx, w.pids, min(left, slice)); err != nil {
				return 0, fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	for i, w := range ways {
		all[i].report(r, w.name)
	}
	return all[0].rate(), nil
}

func (g *Gateway) ways(ctx context.Context, server *testbed.Server) ([]way, error) {
	plain, direct, err := g.part(ctx, PartHandler, "")
	if err != nil {
		return nil, err
	}
	proxy, proxied, err := g.part(ctx, PartProxy, direct)
	if err != nil {
		return nil, err
	}
	base := "http://" + server.HTTP
	worker, _, err := g.part(ctx, PartWorker, base)
	if err != nil {
		return nil, err
	}
	return []way{
		{"directly", direct, []int{plain}},
		{"behind Go's reverse proxy", proxied, []int{proxy, plain}},
		{"behind the gateway", base + "/gw/bench", []int{server.PID, worker}},
	}, nil
}

// load sets how a way is called.
type load struct {
	name, path string
	conns      int
	every      time.Duration // interval of each caller's calls; 0: each call follows the one before
}

// warming is how long each way is called before the measurement.
const warming = time.Second

// measured holds the measurements of one way so far.
type measured struct {
	caller
	took      []time.Duration
	span, cpu time.Duration
}

func (m *measured) rate() float64 { return float64(len(m.took)) / m.span.Seconds() }

func (m *measured) add(ctx context.Context, pids []int, span time.Duration) error {
	before, err := cpu(pids)
	if err != nil {
		return err
	}
	begun := time.Now()
	took, err := m.call(ctx, span, false)
	if err != nil {
		return err
	}
	m.span += time.Since(begun) // until the last answer
	after, err := cpu(pids)
	if err != nil {
		return err
	}
	m.took, m.cpu = append(m.took, took...), m.cpu+after-before
	if len(m.took) == 0 {
		return fmt.Errorf("no call began within %s: measure for longer", span)
	}
	return nil
}

func (m *measured) report(r *report.Result, name string) {
	slices.Sort(m.took)
	n := len(m.took)
	group := func(what string) string { return what + ", " + m.name }
	r.Add(group("requests"), name, "/s", m.rate())
	r.Add(group("CPU time of all processes on the way"), name, "µs a request", float64(m.cpu.Microseconds())/float64(n))
	r.Add(group("p50"), name, "ms", float64(m.took[n/2].Microseconds())/1000)
	r.Add(group("p99"), name, "ms", float64(m.took[n*99/100].Microseconds())/1000)
}

func cpu(pids []int) (sum time.Duration, err error) {
	for _, pid := range pids {
		u, err := meter.Read(pid)
		if err != nil {
			return 0, err
		}
		sum += u.CPU
	}
	return sum, nil
}

// caller calls one way.
type caller struct {
	*load
	transport *http.Transport
	address   string
}

// call makes calls for span and returns the duration of each. While warming is set, it repeats calls that do not return 200, because a
// worker may not serve yet.
func (c *caller) call(ctx context.Context, span time.Duration, warming bool) ([]time.Duration, error) {
	begin := time.Now()
	took := make([][]time.Duration, c.conns)
	var failed atomic.Pointer[error]
	var callers sync.WaitGroup
	for i := range c.conns {
		callers.Go(func() {
			due := begin.Add(c.every * time.Duration(i) / time.Duration(c.conns)) // they take turns
			for failed.Load() == nil {
				begun := c.begin(due)
				if begun.Sub(begin) > span {
					return
				}
				if err := callOnce(ctx, c.transport, c.address); err != nil && !warming {
					failed.Store(&err)
				}
				took[i] = append(took[i], time.Since(begun))
				due = due.Add(c.every)
			}
		})
	}
	callers.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return slices.Concat(took...), nil
}

// begin waits until a call is due and returns the time from which it counts. A call delayed by the one before counts from when it was due.
func (l *load) begin(due time.Time) time.Time {
	if l.every == 0 {
		return time.Now()
	}
	if wait := time.Until(due); wait > 0 {
		time.Sleep(wait)
		return time.Now()
	}
	return due
}

func callOnce(ctx context.Context, t http.RoundTripper, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer dev")
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered with %s", resp.Status)
	}
	return nil
}
