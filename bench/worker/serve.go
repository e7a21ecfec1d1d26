package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/internal/engine/reactor"
)

const (
	// maxRequest is the longest line a worker reads, in bytes; lines name servers, not recipients.
	maxRequest = 1 << 20
	// Limits of a connection's buffers, in bytes: answers to large batches are kept until they are complete, and large batches are
	// queued whole.
	inputBytes = 64 << 20
	queueBytes = 64 << 20
)

// server is the worker's side of the protocol.
type server struct {
	r     *reactor.Reactor
	subs  atomic.Pointer[loadgen.Subscribers]
	pubs  atomic.Pointer[loadgen.Publishers]
	ahead int64 // how far the run's clock is ahead of this process's, in nanoseconds
	// redis replaces pubs if messages are published into Redis.
	redis    *loadgen.RedisPublishers
	postgres *loadgen.PostgresWriters // the same for transactions

	mu  sync.Mutex // one line at a time
	out *json.Encoder
}

// Serve carries out requests from in until in ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	return serve(ctx, requests(in), out, func() {})
}

// serve carries out requests until they end, or one says that the run has ended. It calls begun before every request.
func serve(ctx context.Context, lines *bufio.Scanner, out io.Writer, begun func()) error {
	r, err := reactor.New(reactor.Config{Loops: 1, InputBytes: inputBytes, QueueBytes: queueBytes}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer r.Close()
	s := &server{r: r, out: json.NewEncoder(out)}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.tick(ctx) })
	defer wg.Wait()
	defer cancel()
	for {
		var req Request
		if err := nextRequest(lines, &req); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if req.Ended {
			return errEnded
		}
		begun()
		s.answer(ctx, &req)
	}
}

func (s *server) answer(ctx context.Context, req *Request) {
	begun := time.Now()
	reply, err := s.do(ctx, req)
	if err != nil {
		reply.Error = err.Error()
	}
	if reply.Seconds == 0 {
		reply.Seconds = time.Since(begun).Seconds()
	}
	s.say(&reply)
}

func requests(in io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRequest)
	return lines
}

// nextRequest reads one request. It returns io.EOF after the last one.
func nextRequest(lines *bufio.Scanner, req *Request) error {
	if !lines.Scan() {
		if err := lines.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	if err := json.Unmarshal(lines.Bytes(), req); err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	return nil
}

func (s *server) say(r *Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(r) // the error is ignored: if the reader is gone, the input is closed too
}

func (s *server) do(ctx context.Context, req *Request) (reply Reply, err error) {
	subs, pubs := s.subs.Load(), s.pubs.Load()
	switch {
	case req.Clock != nil:
		if ahead := req.Clock.Ahead; ahead != nil {
			s.ahead = *ahead
			if subs != nil {
				subs.SetAhead(s.ahead)
			}
		}
		reply.Now = loadgen.Now()
		return reply, nil
	case req.Connect != nil && req.Connect.Count > MostConnections, req.Publishers != nil && req.Publishers.Publishers > MostConnections:
		return reply, fmt.Errorf("a worker holds at most %d connections", MostConnections)
	case req.Connect != nil:
		if subs, err = loadgen.NewSubscribers(s.r, *req.Connect); err != nil {
			return reply, err
		}
		subs.SetAhead(s.ahead)
		s.subs.Store(subs)
		return reply, subs.Connect(ctx, req.Connect.Concurrency)
	case req.Publishers != nil:
		if pubs != nil {
			pubs.Close()
		}
		pubs, err = loadgen.NewPublishers(ctx, s.r, *req.Publishers)
		s.pubs.Store(pubs)
		return reply, err
	case req.Redis != nil:
		s.redis, err = loadgen.NewRedisPublishers(ctx, *req.Redis)
		return reply, err
	case req.Postgres != nil:
		return reply, s.writeTo(ctx, subs, req.Postgres)
	case req.Publish != nil:
		run, err := s.publishing(pubs)
		if err != nil {
			return reply, err
		}
		done, err := run(ctx, req.Publish.Rate, req.Publish.For)
		reply.Published, reply.Seconds = &done, done.Seconds
		return reply, err
	case req.Since && s.postgres != nil:
		reply.Since = s.postgres.TakeSince()
		return reply, nil
	case subs == nil:
		return reply, errors.New("there are no subscribers")
	case req.Reconnect != nil:
		return reply, subs.Connect(ctx, req.Reconnect.Concurrency)
	case req.Cut:
		return reply, subs.Cut(ctx)
	case req.Await != nil:
		return reply, await(ctx, subs, req.Await)
	case req.PingPong != nil:
		reply.Latency, err = loadgen.PingPong(ctx, subs, pubs, req.PingPong.Messages, req.PingPong.Patience)
		return reply, err
	case req.Counts:
		c := subs.Counts()
		reply.Counts = &c
		return reply, nil
	case req.Latency:
		reply.Latency = subs.TakeLatency()
		if used, err := meter.Read(os.Getpid()); err == nil { // elsewhere than on Linux nobody knows
			reply.Usage = &used
		}
		return reply, nil
	}
	return reply, errors.New("the request asks for nothing")
}

// writeTo connects writers of transactions in place of the former ones.
func (s *server) writeTo(ctx context.Context, subs *loadgen.Subscribers, cfg *loadgen.PostgresConfig) (err error) {
	if s.postgres != nil {
		s.postgres.Close()
	}
	if s.postgres, err = loadgen.NewPostgresWriters(ctx, *cfg); err == nil && subs != nil {
		subs.OnStamp(s.postgres.Arrived)
	}
	return err
}

// publishing returns what publishes.
func (s *server) publishing(pubs *loadgen.Publishers) (run func(context.Context, float64, time.Duration) (loadgen.Published, error), err error) {
	switch {
	case s.redis != nil:
		return s.redis.Run, nil
	case s.postgres != nil:
		return s.postgres.Run, nil
	case pubs != nil:
		return pubs.Run, nil
	}
	return nil, errors.New("there are no publishers")
}

// await polls often enough for a resolution of milliseconds.
func await(ctx context.Context, subs *loadgen.Subscribers, a *Await) error {
	ctx, cancel := context.WithTimeout(ctx, a.Patience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for subs.Received() < a.Received {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d notifications came within %s", subs.Received(), a.Received, a.Patience)
		}
	}
	return nil
}

// tick shows signs of life.
func (s *server) tick(ctx context.Context) {
	tk := time.NewTicker(time.Second)
	defer tk.Stop()
	for {
		select {
		case <-tk.C:
		case <-ctx.Done():
			return
		}
		t := &Tick{}
		if subs := s.subs.Load(); subs != nil {
			t.Live, t.Received, t.Latency = subs.Live(), subs.Received(), subs.Interval().Summary()
		}
		if pubs := s.pubs.Load(); pubs != nil {
			t.Published = pubs.Progress().Accepted
		}
		s.say(&Reply{Tick: t})
	}
}
