package conngate

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/limit"
)

func TestConnectionsWaitWhileManyAreFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{Limit: limit.NewAddrs(0, false), Most: 1 << 20, Moved: func() int { return 0 }, Opening: func() {}})
		conns := make([]net.Conn, mostFresh+2)
		for i := range conns {
			ours, theirs := net.Pipe()
			defer ours.Close()
			defer theirs.Close()
			conns[i] = ours
		}
		begun := time.Now()
		for _, c := range conns[:mostFresh] {
			g.State(c, http.StateNew)
		}
		if waited := time.Since(begun); waited != 0 {
			t.Fatalf("the first %d waited for %s", mostFresh, waited)
		}
		go func() {
			time.Sleep(time.Millisecond)
			g.State(conns[7], http.StateHijacked)
		}()
		g.State(conns[mostFresh], http.StateNew)
		if waited := time.Since(begun); waited != time.Millisecond {
			t.Errorf("one waited for %s, want until another had gone on", waited)
		}
		g.State(conns[mostFresh+1], http.StateNew)
		if waited := time.Since(begun); waited != freshFor {
			t.Errorf("one waited for %s, want no longer than %s after the oldest came", waited, freshFor)
		}
		for _, c := range conns[8:] {
			g.State(c, http.StateIdle)
		}
		if n := g.fresh.Load(); n > 7 {
			t.Errorf("%d are fresh although all but 7 have their answer", n)
		}
	})
}
