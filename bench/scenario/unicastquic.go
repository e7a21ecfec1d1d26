package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/quicflood"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
)

// UnicastQUIC measures what QUIC costs those who do not use it: the same load on a server without QUIC, on one whose UDP port nobody uses, and on
// one whose UDP port is flooded while clients over QUIC do not read.
type UnicastQUIC struct {
	Load
	Flood   float64 // packets a second
	Stalled int     // clients over QUIC that do not read
}

// The three servers, as groups of figures.
var quicStates = []string{"QUIC off", "QUIC idle", "QUIC flooded"}

const (
	stalledRate = 50      // messages a second to clients that do not read
	stalledSize = 4 << 10 // bytes of each
	floodPorts  = 500
)

// Run measures the three in turn. Which one begins changes with each run, so that other work of the machine affects all alike.
func (u *UnicastQUIC) Run(ctx context.Context) (*report.Result, error) {
	r := u.begin("unicast-quic", "unicast: one recipient a publish, beside QUIC that is off, idle, and flooded",
		append(u.settings(), set("packets of the flood", report.Format(u.Flood)+"/s"), set("QUIC clients that do not read", u.Stalled))...)
	return r, u.runs(ctx, func(ctx context.Context, n int) error {
		p99 := make([]float64, len(quicStates))
		for turn := range quicStates {
			state := (turn + n) % len(quicStates)
			o, err := u.window(ctx, r, state, n)
			if err != nil {
				return fmt.Errorf("%s: %w", quicStates[state], err)
			}
			o.tell(r, quicStates[state], n)
			p99[state] = o.Latency.Summary().P99
		}
		for state := 1; state < len(p99); state++ {
			r.Add("", "p99 with "+quicStates[state]+" to p99 with "+quicStates[0], "×", p99[state]/p99[0])
		}
		return nil
	})
}

// window measures one of the three once.
func (u *UnicastQUIC) window(ctx context.Context, r *report.Result, state, run int) (*Outcome, error) {
	load, bed := u.Load, *u.Testbed
	load.Testbed = &bed
	if state > 0 {
		bed.Server.Args = append(slices.Clip(bed.Server.Args), "--quic-addr", "127.0.0.1:0")
	}
	site, err := load.newSite(ctx)
	if err != nil {
		return nil, err
	}
	defer site.Close()
	if state < 2 {
		return load.measureOn(ctx, site, run)
	}
	return u.flooded(ctx, &load, r, site, run)
}

// flooded measures the load beside the flood and the clients that do not read.
func (u *UnicastQUIC) flooded(ctx context.Context, load *Load, r *report.Result, site *testbed.Site, run int) (*Outcome, error) {
	st, err := raise(ctx, site, loadgen.QUIC, u.Stalled, 1, stalledSize)
	defer st.stop()
	if err != nil {
		return nil, err
	}
	flood, err := quicflood.New(ctx, quicflood.Config{Addr: site.Targets()[0].QUIC, Sources: floodPorts, Rate: u.Flood})
	if err != nil {
		return nil, err
	}
	defer flood.Close()
	within, end := context.WithCancel(ctx)
	defer end()
	var running sync.WaitGroup
	var failed error
	load.beside = func() {
		running.Go(func() { failed = flood.Run(within) })
		running.Go(func() {
			_, _ = st.pubs.Call(within, worker.Request{Publish: &worker.Publish{Rate: stalledRate, For: load.Warmup + load.For}}) // the measurement may end before
		})
	}
	o, err := load.measureOn(ctx, site, run)
	end()
	running.Wait()
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	sent, group := flood.Sent(), quicStates[2]
	r.Add(group, "flood: packets", "", float64(sent.Packets))
	r.Add(group, "flood: demanded proofs of the address", "", float64(sent.Retries))
	r.Add(group, "flood: bytes back for each sent", "×", float64(sent.Returned)/float64(max(sent.Bytes, 1)))
	return o, nil
}
