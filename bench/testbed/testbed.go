package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/worker"
)

// Testbed makes servers and workers.
type Testbed struct {
	Server   ServerOptions
	Rival    *Rival  // the program to measure instead of Godwit; nil: Godwit
	Running  *Server // the running server to measure; nil: servers are started
	Self     string  // path of the running program, which is also started as the other processes of a measurement
	Profile  string  // file for a CPU profile of the first server, taken during each measured phase; empty: none
	Progress func(string)

	Run      *worker.Run      // lets workers of other machines hold the subscribers; nil: processes of this machine do
	Machines []worker.Machine // that have joined Run
}

// Say shows the progress of the measurement.
func (l *Testbed) Say(format string, args ...any) {
	if l.Progress != nil {
		l.Progress(fmt.Sprintf(format, args...))
	}
}

// Site is a set of servers and workers that belong together.
type Site struct {
	bed     *Testbed
	Servers []*Server
	Subs    []*Subscribers

	shared  *Database // database of a cluster's nodes; nil: the servers are not a cluster
	secret  string    // file with the nodes' secret
	release []func()  // functions that release the ports of connections between nodes
}

// Subscribers is a worker that holds subscribers.
type Subscribers struct {
	*worker.Worker
	First, Count int

	part reading // of the last phase
}

// NewSite starts servers.
func (l *Testbed) NewSite(ctx context.Context, servers int) (*Site, error) {
	s := &Site{bed: l}
	if l.Running != nil {
		s.Servers = []*Server{l.Running}
		return s, nil
	}
	for range max(servers, 1) {
		if l.Server.Stubs > 0 {
			l.Say("filling the store of server %d", len(s.Servers)+1)
		} else {
			l.Say("starting server %d", len(s.Servers)+1)
		}
		started, err := l.start(ctx)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.Servers = append(s.Servers, started)
	}
	return s, nil
}

func (l *Testbed) start(ctx context.Context) (*Server, error) {
	if l.Rival != nil {
		return l.Rival.start(ctx, &l.Server)
	}
	return StartServer(ctx, l.Server)
}

// Close ends all processes.
func (s *Site) Close() {
	s.StopWorkers()
	if s.bed.Running != nil {
		return
	}
	var wg sync.WaitGroup
	for _, srv := range s.Servers {
		wg.Go(srv.Stop)
	}
	wg.Wait()
	if s.shared != nil {
		s.shared.Drop()
	}
	if s.secret != "" {
		_ = os.Remove(s.secret) // a file that remains is in the temporary folder
	}
	for _, release := range s.release {
		release()
	}
}

// StopWorkers ends the processes that hold subscribers.
func (s *Site) StopWorkers() {
	for _, w := range s.Subs {
		w.Stop()
	}
	s.Subs = nil
}

// Targets returns the addresses of the servers.
func (s *Site) Targets() (t []loadgen.Target) {
	for _, srv := range s.Servers {
		t = append(t, srv.Target)
	}
	return t
}

// Alive returns an error if a server has ended: its clients' counts would then measure nothing.
func (s *Site) Alive() error {
	for _, srv := range s.Servers {
		if err := srv.Alive(); err != nil {
			return err
		}
	}
	return nil
}

// PIDs returns the known process ids of the servers.
func (s *Site) PIDs() (pids []int) {
	for _, srv := range s.Servers {
		if srv.PID > 0 {
			pids = append(pids, srv.PID)
		}
	}
	return pids
}

// WorkerPIDs returns the ids of the processes of this machine that hold subscribers.
func (s *Site) WorkerPIDs() (pids []int) {
	for _, w := range s.Subs {
		if w.Where() == nil {
			pids = append(pids, w.PID())
		}
	}
	return pids
}

// NewWorker starts a worker.
func (s *Site) NewWorker(ctx context.Context) (*worker.Worker, error) {
	return worker.Start(ctx, []string{s.bed.Self, "worker"}, s.bed.Server.Confined.StartBeside)
}

// Connect starts workers, as many as cfg.Count needs but at least atLeast, and connects more subscribers: to all servers, unless cfg names
// some. It returns the number of seconds that the slowest worker took.
func (s *Site) Connect(ctx context.Context, cfg loadgen.SubscriberConfig, atLeast int) (seconds float64, err error) {
	here := len(s.Subs)
	if err := s.startWorkers(ctx, cfg.Count, atLeast); err != nil {
		return 0, err
	}
	replies, err := call(ctx, s.Subs[here:], func(w *Subscribers) worker.Request {
		c := cfg
		c.App, c.First, c.Count = App, w.First, w.Count
		if c.Targets == nil {
			c.Targets = s.Targets()
		}
		return worker.Request{Connect: &c}
	})
	for _, r := range replies {
		seconds = max(seconds, r.Seconds)
	}
	return seconds, err
}

// startWorkers starts workers for count subscribers: on all machines that have joined, as many of them on each, or else here.
func (s *Site) startWorkers(ctx context.Context, count, atLeast int) error {
	machines := max(len(s.bed.Machines), 1)
	if all := s.held() + count; s.bed.Run != nil && all > machines*worker.MostConnections {
		return fmt.Errorf("%d clients need more than %d machines, each of which holds at most %d", all, machines, worker.MostConnections)
	}
	workers := max(atLeast, (count+worker.MostConnections-1)/worker.MostConnections, 1)
	workers = (workers + machines - 1) / machines * machines
	workers = min(workers, max(count, 1))
	each := (count + workers - 1) / workers
	for first, n := 0, 0; first < count; first, n = first+each, n+1 {
		w, err := s.newSubscribers(ctx, n)
		if err != nil {
			return err
		}
		w.First, w.Count = first, min(each, count-first)
		s.Subs = append(s.Subs, w)
	}
	return nil
}

// held returns the number of subscribers so far.
func (s *Site) held() (n int) {
	for _, w := range s.Subs {
		n += w.Count
	}
	return n
}

// newSubscribers starts the nth worker for subscribers.
func (s *Site) newSubscribers(ctx context.Context, n int) (*Subscribers, error) {
	if s.bed.Run == nil {
		w, err := s.NewWorker(ctx)
		return &Subscribers{Worker: w}, err
	}
	w, err := s.bed.Run.Start(ctx, s.bed.Machines[n%len(s.bed.Machines)].Name)
	if err != nil {
		return nil, err
	}
	sub := &Subscribers{Worker: w}
	if err := sub.compareClocks(ctx); err != nil {
		w.Stop()
		return nil, err
	}
	return sub, nil
}

// Each sends a request to every worker with subscribers at the same time and waits for all replies.
func (s *Site) Each(ctx context.Context, request func(*Subscribers) worker.Request) ([]worker.Reply, error) {
	return call(ctx, s.Subs, request)
}

func call(ctx context.Context, workers []*Subscribers, request func(*Subscribers) worker.Request) ([]worker.Reply, error) {
	replies := make([]worker.Reply, len(workers))
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() { replies[i], errs[i] = w.Call(ctx, request(w)) })
	}
	wg.Wait()
	return replies, errors.Join(errs...)
}

// Counts adds up the subscribers' counts.
func (s *Site) Counts(ctx context.Context) (sum loadgen.Counts, err error) {
	replies, err := s.Each(ctx, func(*Subscribers) worker.Request { return worker.Request{Counts: true} })
	if err != nil {
		return sum, err
	}
	for _, r := range replies {
		c := r.Counts
		sum.Live += c.Live
		sum.Received += c.Received
		sum.Duplicates += c.Duplicates
		sum.Disorder += c.Disorder
		sum.Lost += c.Lost
		sum.Agreed += c.Agreed
		sum.Unknown += c.Unknown
		sum.Gaps += c.Gaps
		if sum.Why == "" {
			sum.Why = c.Why
		}
	}
	return sum, nil
}

// AwaitReceived waits until all subscribers together have received want notifications, including those reported as gaps, or patience ends.
// It returns the counts at that time.
func (s *Site) AwaitReceived(ctx context.Context, want int64, patience time.Duration) (loadgen.Counts, error) {
	until := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := s.Counts(ctx)
		if err != nil || c.Received+c.Gaps >= want || time.Now().After(until) {
			return c, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c, context.Cause(ctx)
		}
	}
}
