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

// Gateway measures the same handler called directly, behind Go's reverse proxy in a process of its own, and as a worker
// behind the gateway.
type Gateway struct {
	Common
	For   time.Duration // of each measurement
	Conns int           // that call at once; besides, one alone is measured
	Works time.Duration // the handler takes beside its answer
}

// Parts are the processes of a measurement that this program becomes.
const (
	PartHandler = "handler"
	PartProxy   = "proxy"
	PartWorker  = "worker"
)

// ServePart is such a process: it writes where it listens, or that it serves, and goes on until ctx ends.
func ServePart(ctx context.Context, out io.Writer, part, target string, works time.Duration) error {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if works > 0 {
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

// part starts a process and waits until it says where it is.
func (g *Gateway) part(ctx context.Context, name, target string) (pid int, address string, err error) {
	args := append(slices.Clone(g.Testbed.Server.Command), "bench", "gateway-part", name, "--works", g.Works.String())
	if target != "" {
		args = append(args, "--target", target)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, "", err
	}
	if err := cmd.Start(); err != nil {
		return 0, "", err
	}
	context.AfterFunc(ctx, func() { _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, "", fmt.Errorf("start the %s: %w", name, err)
	}
	return cmd.Process.Pid, strings.TrimSpace(line), nil
}

// way is one of the ways to the handler.
type way struct {
	name, url string
	pids      []int // of the processes on it
}

// Run measures.
func (g *Gateway) Run(ctx context.Context) (*report.Result, error) {
	r := g.begin("gateway", "One handler: called directly, behind Go's reverse proxy, and behind the gateway",
		set("for", g.For), set("connections", g.Conns), set("handler takes", g.Works))
	r.Compared = true
	return r, g.runs(ctx, func(ctx context.Context, _ int) error {
		ctx, cancel := context.WithCancel(ctx)
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
		for _, conns := range []int{1, g.Conns} {
			for _, w := range ways {
				if err := g.measure(ctx, r, w, conns); err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
			}
		}
		return nil
	})
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
		{"directly", direct + "/x", []int{plain}},
		{"behind Go's reverse proxy", proxied + "/x", []int{proxy, plain}},
		{"behind the gateway", base + "/gw/bench/x", []int{server.PID, worker}},
	}, nil
}

// warming is how long each way is called before it counts.
const warming = time.Second

func (g *Gateway) measure(ctx context.Context, r *report.Result, w way, conns int) error {
	transport := &http.Transport{MaxIdleConnsPerHost: conns, MaxConnsPerHost: conns}
	defer transport.CloseIdleConnections()
	if _, err := call(ctx, transport, w.url, conns, warming, true); err != nil {
		return err
	}
	before, err := cpu(w.pids)
	if err != nil {
		return err
	}
	took, err := call(ctx, transport, w.url, conns, g.For, false)
	if err != nil {
		return err
	}
	after, err := cpu(w.pids)
	if err != nil {
		return err
	}
	slices.Sort(took)
	group := func(what string) string { return fmt.Sprintf("%s, %d connections", what, conns) }
	r.Add(group("requests"), w.name, "/s", float64(len(took))/g.For.Seconds())
	r.Add(group("CPU time of all processes on the way"), w.name, "µs a request", float64((after-before).Microseconds())/float64(len(took)))
	r.Add(group("p50"), w.name, "ms", float64(took[len(took)/2].Microseconds())/1000)
	r.Add(group("p99"), w.name, "ms", float64(took[len(took)*99/100].Microseconds())/1000)
	return nil
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

// call calls from so many connections for a while and says how long each call took. While warming, an answer other than
// 200 is asked for again: a worker may not serve yet.
func call(ctx context.Context, t http.RoundTripper, address string, conns int, span time.Duration, warming bool) ([]time.Duration, error) {
	end := time.Now().Add(span)
	took := make([][]time.Duration, conns)
	var failed atomic.Pointer[error]
	var callers sync.WaitGroup
	for i := range conns {
		callers.Go(func() {
			for failed.Load() == nil {
				begun := time.Now()
				if begun.After(end) {
					return
				}
				if err := callOnce(ctx, t, address); err != nil && !warming {
					failed.Store(&err)
				}
				took[i] = append(took[i], time.Since(begun))
			}
		})
	}
	callers.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return slices.Concat(took...), nil
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
