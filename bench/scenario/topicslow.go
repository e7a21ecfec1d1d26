package scenario

import (
	"context"
	"fmt"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
)

// TopicsSlow measures how a storm of topic messages to subscribers that do not read affects the mailbox of the same server. In turn, the
// same storm runs on a second server, so that the machine's load is the same in both cases.
type TopicsSlow struct {
	Load
	Pairs int
	Slow  int // subscribers of the topic, none of which reads
	Storm int // connections that publish to the topic, each as soon as its request before was answered
}

// storm holds the processes that load one server with a storm.
type storm struct{ subs, pubs *worker.Worker }

func (s *storm) stop() {
	for _, w := range []*worker.Worker{s.subs, s.pubs} {
		if w != nil {
			w.Stop()
		}
	}
}

// Run measures all pairs.
func (s *TopicsSlow) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("topics-slow", "topics-slow: what a storm of topics to subscribers that do not read costs the mailbox",
		append(s.settings(), set("subscribers that do not read", s.Slow), set("publishers of the storm", s.Storm), set("pairs", s.Pairs))...)
	for pair := range max(s.Pairs, 1) {
		p99 := map[bool]float64{}
		for turn := range 2 {
			same := (turn+pair)%2 == 1 // who goes first alternates
			group := "storm on a second server"
			if same {
				group = "storm on the same server"
			}
			o, err := s.window(ctx, r, group, same, pair)
			if err != nil {
				return nil, fmt.Errorf("pair %d, %s: %w", pair+1, group, err)
			}
			p99[same] = o.Latency.Summary().P99
		}
		r.Add("", "p99 with the storm on the same server to p99 with it on a second", "×", p99[true]/p99[false])
	}
	return r, nil
}

// window measures the mailbox's load once on new servers, with a storm on one of them.
func (s *TopicsSlow) window(ctx context.Context, r *report.Result, group string, same bool, pair int) (*Outcome, error) {
	site, err := s.Testbed.NewSite(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer site.Close()
	other, err := s.Testbed.NewSite(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	on := other
	if same {
		on = site
	}
	st, err := raise(ctx, on, loadgen.WebSocketJSON, s.Slow, s.Storm, s.Size)
	defer st.stop()
	if err != nil {
		return nil, err
	}
	var stormed loadgen.Published
	done := make(chan error, 1)
	cpu := meter.Start(on.PIDs(), sampling)
	s.beside = func() {
		go func() { // ends with the storm, which measure waits for
			rep, err := st.pubs.Call(ctx, worker.Request{Publish: &worker.Publish{For: s.Warmup + s.For}})
			if rep.Published != nil {
				stormed = *rep.Published
			}
			done <- err
		}()
	}
	o, err := s.measureOn(ctx, site, pair)
	samples := cpu.Stop()
	if err != nil {
		return nil, err
	}
	if err := <-done; err != nil {
		return nil, err
	}
	o.tell(r, group, pair)
	r.Add(group, "storm: messages accepted", "/s", float64(stormed.Requests)/stormed.Seconds)
	r.Add(group, "storm: refused", "", float64(stormed.Refused))
	r.Add(group, "storm: CPU of its server", "s", meter.CPU(samples))
	return o, nil
}

// raise connects publishers of messages of size bytes, and slow subscribers that do not read.
func raise(ctx context.Context, on *testbed.Site, transport string, slow, publishers, size int) (st storm, err error) {
	if st.subs, err = on.NewWorker(ctx); err != nil {
		return st, err
	}
	p := prefix()
	_, err = st.subs.Call(ctx, worker.Request{Connect: &loadgen.SubscriberConfig{
		Targets: on.Targets(), App: testbed.App, Transport: transport, Prefix: p, Count: slow, Concurrency: opening,
		Heartbeat: heartbeat, Topic: benchTopic, NoAcks: true, DeafEvery: 1,
	}})
	if err != nil {
		return st, err
	}
	if st.pubs, err = on.NewWorker(ctx); err != nil {
		return st, err
	}
	_, err = st.pubs.Call(ctx, worker.Request{Publishers: &loadgen.PublishConfig{
		Targets: on.Targets(), Via: loadgen.ViaHTTP, Publishers: publishers, Size: size, Prefix: p, Recipients: slow, ToAll: true,
		Topic: benchTopic, DeafEvery: 1,
	}})
	return st, err
}
