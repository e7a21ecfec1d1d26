package campaigns

import (
	"net/http"
	"testing"
	"time"

	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/internal/sender/sendertest/pushserver"
	"godwit.dev/godwit/test/blackbox"
)

// TestScale measures what a campaign costs, with 14,000 subscribers and with many more:
//
//	go test ./test/campaigns -run Scale -scale -v -timeout 30m
//
// The push service and the server share the machine.
func TestScale(t *testing.T) {
	if !*scale {
		t.Skip("needs minutes and the machine for itself: -scale runs it")
	}
	few := measure(t, 14_000)
	if few.rate < 5000 {
		t.Errorf("%.0f sends a second with %d subscribers, want 5000", few.rate, few.n)
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
	w, provider, _ := pushing(t, n, pushserver.Options{OneKey: true, Trust: true}, func(int) pushserver.Behaviour { return pushserver.Accepting }, blackbox.Plain())
	t.Logf("%d subscribers are there after %s", n, time.Since(begun).Round(time.Second))
	id := w.start(map[string]any{"content": map[string]any{"title": "Hi", "body": "There is news"}, "audience": map[string]any{"channels": []string{"webpush"}}})
	var c campaign
	blackbox.EventuallyWithin(t, 20*time.Minute, "the campaign is completed", func() error {
		w.call(http.MethodGet, "/v1/campaigns/"+id, nil, &c)
		if c.State != "completed" {
			return errRunning
		}
		return nil
	})
	used, err := meter.Read(w.server.PID())
	if err != nil {
		t.Fatal(err)
	}
	res := cost{n: n, memory: used.Peak, rate: float64(n) / c.FinishedAt.Sub(c.StartedAt).Seconds()}
	if c.Counts["accepted"] != n || provider.Accepted() != n {
		t.Errorf("%v; the push service took %d", c.Counts, provider.Accepted())
	}
	t.Logf("%d subscribers: %.0f sends a second, %d µs of CPU each, %d MB at most", n, res.rate, used.CPU.Microseconds()/int64(n), res.memory>>20)
	w.server.Kill()
	return res
}
