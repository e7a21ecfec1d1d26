package campaigns

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/test/blackbox"
)

// TestScale measures what a campaign costs, with 14,000 subscribers and with many more:
//
//	go test ./test/campaigns -run Scale -scale -v -timeout 60m
//
// The push service, which is this process, and the server share the machine. With -profiles DIR the server's CPU
// profiles are written there; -cpuprofile is that of the push service.
func TestScale(t *testing.T) {
	alone(t)
	if !*scale {
		t.Skip("needs minutes and the machine for itself: -scale runs it")
	}
	few := measure(t, *fewSubscribers)
	if few.rate < 5000 {
		t.Errorf("%.0f sends a second with %d subscribers, want 5000", few.rate, few.n)
	}
	if *manySubscribers == 0 {
		return
	}
	many := measure(t, *manySubscribers)
	if most := few.memory * 12 / 10; many.memory > most {
		t.Errorf("%d MB with %d subscribers, want at most 1.2 times the %d MB with %d", many.memory>>20, many.n, few.memory>>20, few.n)
	}
}

type cost struct {
	n      int
	rate   float64
	memory int64
}

func measure(t *testing.T, n int) cost {
	begun := time.Now()
	w, provider, subs := pushing(t, n, pushserver.Options{OneKey: true, Quick: true}, func(int) pushserver.Behaviour { return pushserver.Accepting }, blackbox.Plain())
	t.Logf("%d subscribers are there after %s", n, time.Since(begun).Round(time.Second))
	server, own := cpu(t, w.server.PID()), cpu(t, os.Getpid())
	profiled := w.profile(n)
	id := w.start(map[string]any{"content": map[string]any{"title": "Hi", "body": "There is news"}, "audience": map[string]any{"channels": []string{"webpush"}}})
	c := w.completed(id)
	server, own = cpu(t, w.server.PID())-server, cpu(t, os.Getpid())-own
	profiled()
	used, err := meter.Read(w.server.PID())
	if err != nil {
		t.Fatal(err)
	}
	res := cost{n: n, memory: used.Peak, rate: float64(n) / c.FinishedAt.Sub(c.StartedAt).Seconds()}
	if c.Counts["accepted"] != n || provider.Accepted() != n {
		t.Errorf("%v; the push service took %d", c.Counts, provider.Accepted())
	}
	for _, s := range subs {
		if got := provider.AcceptedBy(s.push); got != 1 {
			t.Fatalf("subscriber %s got it %d times", s.push, got)
		}
	}
	each := func(d time.Duration) int64 { return d.Microseconds() / int64(n) }
	t.Logf("%d subscribers: %.0f sends a second, %d µs of CPU each (and %d µs of the push service), %d MB at most",
		n, res.rate, each(server), each(own), res.memory>>20)
	w.server.Kill()
	return res
}

func cpu(t *testing.T, pid int) time.Duration {
	used, err := meter.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	return used.CPU
}

// completed waits for a campaign's end. It checks rarely, since each check is work for the measured server.
func (w *world) completed(id string) (c campaign) {
	w.Helper()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(20 * time.Minute); time.Now().Before(end); <-look.C {
		if w.call(http.MethodGet, "/v1/campaigns/"+id, nil, &c); c.State == "completed" {
			return c
		}
	}
	w.Fatalf("the campaign is %s after 20 minutes: %v", c.State, c.Counts)
	return c
}

// profile makes the server profile its CPU, if requested, until the returned function is called.
func (w *world) profile(n int) (wait func()) {
	if *profiles == "" {
		return func() {}
	}
	file := filepath.Join(*profiles, "server-"+strconv.Itoa(n)+".pprof")
	done := make(chan error, 1)
	seconds := strconv.Itoa(min(max(n/5000, 1), 20))
	go func() {
		req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.server.URL("/debug/pprof/profile?seconds="+seconds), nil)
		if err != nil {
			done <- err
			return
		}
		req.Header.Set("Authorization", "Bearer "+w.api.Key)
		resp, err := w.api.HTTP.Do(req)
		if err != nil {
			done <- err
			return
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		done <- err
	}()
	return func() {
		if err := <-done; err != nil {
			w.Fatal(err)
		}
	}
}
