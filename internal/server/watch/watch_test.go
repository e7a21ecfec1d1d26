package watch_test

import (
	"context"
	"encoding/json"
	"math"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/engine/latency"
	"godwit.dev/godwit/internal/server/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watching runs a watch over figures that a test can change.
func watching(t *testing.T, look func() watch.Totals) *watch.Watch {
	w := watch.New()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, look) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return w
}

func TestFiguresAreBySecondAndAsTheyStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took latency.Histogram
		took.Observe(time.Second) // before anybody looked
		var now atomic.Pointer[watch.Totals]
		now.Store(&watch.Totals{Stored: 100, Pending: 7, Push: map[watch.Ended]uint64{{"telegram", "accepted"}: 4}, Publish: took.Buckets()})
		w := watching(t, func() watch.Totals { return *now.Load() })
		if w.Now() != nil || len(w.Last(watch.Kept).At) != 0 {
			t.Error("there are figures before there are two readings")
		}
		took.Observe(2 * time.Millisecond)
		now.Store(&watch.Totals{Stored: 150, Pending: 9, Push: map[watch.Ended]uint64{{"telegram", "accepted"}: 6, {"fcm", "failed"}: 1}, Publish: took.Buckets()})
		w.Refuse("shop", "POST /v1/x", 400, "bad input")
		w.Refuse("shop", "POST /v1/x", 503, "not now")
		w.Fail()
		time.Sleep(watch.Every)
		synctest.Wait()
		h := w.Last(watch.Kept)
		if len(h.At) != 1 || h.At[0].Sub(h.Since) != watch.Every {
			t.Fatalf("readings at %v, since %s", h.At, h.Since)
		}
		for name, want := range map[string]float64{
			"published": 10, "pending": 9, "push_accepted": 0.4, "push_failed": 0.2, "calls_refused": 0.2, "calls_failed": 0.4, "delivered": 0,
		} {
			if got := float64(h.Values[name][0]); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if p := float64(h.Values[watch.P99][0]); p < 2 || p > 2.25 {
			t.Errorf("p99 is %v ms: what was before is counted, or an eighth is not", p)
		}
		if want := (map[watch.Ended]uint64{{"telegram", "accepted"}: 2, {"fcm", "failed"}: 1}); !reflect.DeepEqual(h.Push, want) {
			t.Errorf("pushed %v, want %v", h.Push, want)
		}
		if n := h.Sum("calls_failed"); n != 2 {
			t.Errorf("%d calls failed, want 2", n)
		}
		time.Sleep(watch.Every)
		synctest.Wait()
		if p := float64(w.Now()[watch.P99]); !math.IsNaN(p) {
			t.Errorf("p99 of nothing is %v", p)
		}
	})
}

func TestAnHourIsKeptAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := uint64(0)
		w := watching(t, func() watch.Totals { n++; return watch.Totals{Stored: n * n} })
		for range 3 * time.Hour / watch.Every {
			time.Sleep(watch.Every)
		}
		synctest.Wait()
		h := w.Last(24 * time.Hour)
		if len(h.At) != int(watch.Kept/watch.Every) || time.Since(h.Since) != watch.Kept {
			t.Fatalf("%d readings since %s", len(h.At), time.Since(h.Since))
		}
		for i := 1; i < len(h.At); i++ {
			if h.At[i].Sub(h.At[i-1]) != watch.Every || h.Values["published"][i] <= h.Values["published"][i-1] {
				t.Fatalf("reading %d is out of order", i)
			}
		}
		if n := len(w.Last(time.Minute).At); n != 12 {
			t.Errorf("a minute has %d readings", n)
		}
	})
}

func TestWaiterIsWokenByNextReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, func() watch.Totals { return watch.Totals{} })
		begun := time.Now()
		<-w.News()
		if waited := time.Since(begun); waited != watch.Every {
			t.Errorf("the next reading came after %s", waited)
		}
	})
}

func TestNodesAreAddedUp(t *testing.T) {
	nan := watch.Number(math.NaN())
	var s watch.Sum
	for _, node := range []map[string]watch.Number{
		{"sessions": 3, watch.P99: nan, watch.Free: 9e9, watch.P50: 1}, {"sessions": 4, watch.P99: 8, watch.Free: 5e9, watch.P50: nan}, {"sessions": 1, watch.P99: 2, watch.Free: 7e9, watch.P50: 3},
	} {
		sent, err := json.Marshal(node) // as between nodes
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]watch.Number
		if err := json.Unmarshal(sent, &got); err != nil {
			t.Fatal(err)
		}
		s.Add(got)
	}
	want := watch.Sum{Nodes: 3, Values: map[string]watch.Number{"sessions": 8, watch.P99: 8, watch.Free: 5e9, watch.P50: 3}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("together %+v, want %+v", s, want)
	}
}
