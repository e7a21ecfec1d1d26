package loadgen

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/internal/engine/reactor"
)

// Ways to publish.
const (
	ViaHTTP  = "http"
	ViaGRPC  = "grpc"
	ViaBatch = "batch"
)

// MaxTo is the most recipients that one publish may name.
const MaxTo = 1000

// drainPatience is how long publishers wait for answers after the last publish was due.
const drainPatience = 10 * time.Second

// PublishConfig sets which messages are published, how and how often.
type PublishConfig struct {
	Targets    []Target `json:"targets"`
	Via        string   `json:"via"`
	Publishers int      `json:"publishers"` // connections to each server; each has at most one request under way
	Size       int      `json:"size"`       // bytes of data in each notification
	Prefix     string   `json:"prefix"`     // of the recipients' names
	Recipients int      `json:"recipients"` // numbered from 0
	ToAll      bool     `json:"to_all"`     // each message goes to all recipients; otherwise to the recipients in turn
	Batch      int      `json:"batch"`      // notifications a request, with ViaBatch
	Burst      int      `json:"burst"`      // messages to all that are published in a row, over MQTT; 0: one
	AckNone    bool     `json:"ack_none"`   // the first write settles a notification, without an acknowledgement
	DeafEvery  int      `json:"deaf_every"` // as for the subscribers
	Object     string   `json:"object"`     // put this object, given as GROUP/OBJECT; all recipients are registered for it
	Shared     bool     `json:"shared"`     // each server receives publishes to all recipients, not only to its own
	Topic      string   `json:"topic"`      // publish to this topic, which all recipients subscribe to
	Kept       bool     `json:"kept"`       // inboxes keep each notification; only over HTTP
	Endpoints  []string `json:"endpoints"`  // paths of push endpoints, with PushService
	VAPID      string   `json:"vapid"`      // Authorization of a sender of PushService
	Steps      int      `json:"steps"`      // escalation steps of each notification beyond the live one, none of which becomes due; only over HTTP

	rate float64 // of the present run
}

// deaf reports whether a recipient reads nothing.
func (c *PublishConfig) deaf(n int) bool { return c.DeafEvery > 0 && n%c.DeafEvery == 0 }

// Publishers are connections that publish.
type Publishers struct {
	cfg    PublishConfig
	groups []*group
	until  int64 // when publishing by themselves ends

	ctx     context.Context // cancels connecting, the first time and again later
	reactor *reactor.Reactor

	latency *latency.Histogram
	closed  atomic.Bool

	mu   sync.Mutex
	sums Published
}

// Published counts the results of publishes. Each recipient's copy counts separately.
type Published struct {
	Messages int64              `json:"messages"` // due
	Requests int64              `json:"requests"` // answered
	Accepted int64              `json:"accepted"` // copies
	Refused  int64              `json:"refused"`  // copies
	Deaf     int64              `json:"deaf"`     // accepted copies to recipients that read nothing
	Unsent   int64              `json:"unsent"`   // requests that were due but found no publisher free
	Failed   int64              `json:"failed"`   // connections
	Why      string             `json:"why,omitempty"`
	Seconds  float64            `json:"seconds"` // from the first publish to the last answer
	Latency  *latency.Histogram `json:"latency,omitempty"`
}

// NewPublishers connects publishers.
func NewPublishers(ctx context.Context, r *reactor.Reactor, cfg PublishConfig) (*Publishers, error) {
	if len(cfg.Targets) == 0 || cfg.Recipients < 1 || cfg.Publishers < 1 {
		return nil, errors.New("publishing needs a server, publishers and recipients")
	}
	cfg.Size = max(cfg.Size, minData)
	p := &Publishers{cfg: cfg, ctx: ctx, reactor: r, latency: latency.New()}
	for _, t := range cfg.Targets {
		p.groups = append(p.groups, &group{p: p, target: t, chunks: 1})
	}
	for n := range cfg.Recipients {
		if cfg.Shared {
			for _, g := range p.groups {
				g.recipients = append(g.recipients, n)
			}
			continue
		}
		g := p.groups[TargetOf(cfg.Prefix, n, len(p.groups))]
		g.recipients = append(g.recipients, n)
	}
	for i, g := range p.groups {
		if len(g.recipients) == 0 {
			continue
		}
		if cfg.Shared { // servers publish to different recipients at a time: real publishers do not agree on one
			g.next = i * len(g.recipients) / len(p.groups)
		}
		if err := p.connect(g); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Publishers) connect(g *group) error {
	opened := make(chan struct{}, p.cfg.Publishers)
	for i := range p.cfg.Publishers {
		pub := &publisher{group: g, num: i, requests: p.requests(g)}
		g.chunks = len(pub.requests)
		err := p.open(g, pub, func() {
			g.ready(pub)
			opened <- struct{}{}
		})
		if err != nil {
			return err
		}
	}
	for range p.cfg.Publishers {
		<-opened
	}
	return nil
}

// open connects a publisher and then calls ready.
func (p *Publishers) open(g *group, pub *publisher, ready func()) error {
	transport := ""
	addr := g.target.HTTP
	switch p.cfg.Via {
	case ViaGRPC:
		transport, addr = GRPC, g.target.GRPC
	case MQTT:
		addr = g.target.addr(MQTT)
	}
	d := dialer{r: p.reactor, tls: clientTLS(g.target, transport)}
	err := d.dial(p.ctx, addr, pub.num, 0, func(c *reactor.Conn) reactor.Handler {
		pub.conn, pub.wire = c, p.newWire(g, pub.num)
		pub.write(pub.wire.begin())
		ready()
		return pub
	})
	if err != nil {
		return fmt.Errorf("connect a publisher: %w", err)
	}
	return nil
}

func (p *Publishers) newWire(g *group, n int) pubWire {
	switch p.cfg.Via {
	case ViaGRPC:
		return newGRPCPub()
	case MQTT:
		name := p.cfg.Prefix + "publisher-" + strconv.Itoa(n)
		if g.target.MQTT != "" {
			return &mqttPub{user: name, row: max(p.cfg.Burst, 1)}
		}
		return &mqttPub{client: name, row: max(p.cfg.Burst, 1)}
	case NATS:
		return &natsPub{}
	default:
		return httpPub{}
	}
}

// requests prepares the requests of one publisher in group g.
func (p *Publishers) requests(g *group) (all []*request) {
	c := &p.cfg
	wrap := func(one content) { all = append(all, httpRequest(g.target, one)) }
	if c.Via == ViaGRPC {
		wrap = func(one content) { all = append(all, grpcRequest(g.target, one)) }
	}
	switch {
	case c.Via == PushService:
		return c.pushRequests(g.target)
	case c.Via == MQTT && c.ToAll && c.Burst > 1:
		return []*request{plainRequest(c.burstContent())}
	case c.Via == MQTT && !c.ToAll && g.target.MQTT != "":
		return []*request{plainRequest(c.mailContent())}
	case c.Via == MQTT:
		return []*request{plainRequest(c.mqttContent())}
	case c.Topic != "":
		return []*request{httpRequest(g.target, c.topicContent())}
	case c.Object != "":
		return []*request{httpRequest(g.target, c.objectJSON())}
	case c.Via == NATS:
		return []*request{plainRequest(c.natsContent())}
	case !c.ToAll && c.Via == ViaGRPC:
		wrap(c.oneProto())
	case !c.ToAll && c.Via == ViaBatch:
		wrap(c.batchJSON())
	case !c.ToAll:
		wrap(c.oneJSON())
	default:
		for part := range slices.Chunk(g.recipients, MaxTo) {
			if c.Via == ViaGRPC {
				wrap(c.manyProto(part))
			} else {
				wrap(c.manyJSON(part))
			}
		}
	}
	return all
}

// Run publishes rate messages a second for span and waits for the answers. If rate is 0, each publisher sends the next request as soon as
// it has an answer.
func (p *Publishers) Run(ctx context.Context, rate float64, span time.Duration) (Published, error) {
	p.cfg.rate = rate
	p.mu.Lock()
	p.sums = Published{}
	p.mu.Unlock()
	p.latency.Take()
	begun := Now()
	p.until = begun + int64(span)
	if rate > 0 {
		p.pace(ctx, begun)
	} else {
		p.spin(ctx, begun)
	}
	p.drain(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	sums := p.sums
	sums.Seconds = time.Duration(Now() - begun).Seconds()
	sums.Latency = p.latency.Take()
	if ctx.Err() != nil {
		return sums, context.Cause(ctx)
	}
	if sums.Failed > 0 && sums.Accepted == 0 {
		return sums, fmt.Errorf("publish: %s", sums.Why)
	}
	return sums, nil
}

// spin starts every publisher; each continues by itself until the time is over.
func (p *Publishers) spin(ctx context.Context, begun int64) {
	for _, g := range p.groups {
		for i := range len(g.idle) {
			g.submit(job{due: Now(), chunk: i % g.chunks, to: inTurn})
		}
	}
	t := time.NewTimer(time.Duration(p.until - begun))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// pace submits each message when it is due, even if earlier ones have no answer yet.
func (p *Publishers) pace(ctx context.Context, begun int64) {
	each := float64(max(p.cfg.Burst, 1))
	if p.cfg.Via == ViaBatch {
		each = float64(max(p.cfg.Batch, 1))
	}
	pace(ctx, begun, p.until, each*float64(time.Second)/p.cfg.rate, p.submit)
}

// pace calls submit with 0, 1, 2, …, each interval nanoseconds after the one before, from begun to until by Now.
func pace(ctx context.Context, begun, until int64, interval float64, submit func(i int, due int64)) {
	done := make(chan struct{})
	go func() { // runs on a thread of its own, which ends with the goroutine because its timers were changed
		defer close(done)
		runtime.LockOSThread()
		precise()
		for i := 0; ctx.Err() == nil; i++ {
			due := begun + int64(float64(i)*interval)
			if due >= until {
				return
			}
			if due > Now() {
				sleepUntil(due)
			}
			submit(i, due)
		}
	}()
	<-done
}

func (p *Publishers) submit(i int, due int64) {
	p.mu.Lock()
	p.sums.Messages++
	p.mu.Unlock()
	if !p.cfg.ToAll {
		g := i % len(p.groups)
		if !p.cfg.Shared {
			g = TargetOf(p.cfg.Prefix, i%p.cfg.Recipients, len(p.groups))
		}
		p.groups[g].submit(job{due: due, to: inTurn})
		return
	}
	for _, g := range p.groups {
		for chunk := range g.chunks {
			g.submit(job{due: due, chunk: chunk, to: inTurn})
		}
	}
}

// drain waits for the answers to requests under way.
func (p *Publishers) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainPatience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for _, g := range p.groups {
		for !g.drained() && ctx.Err() == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		left := g.abandon()
		p.mu.Lock()
		p.sums.Unsent += int64(left)
		p.mu.Unlock()
	}
}

// One publishes one message to the recipient now, by a publisher of the recipient's server.
func (p *Publishers) One(recipient int) {
	p.groups[TargetOf(p.cfg.Prefix, recipient, len(p.groups))].submit(job{due: Now(), to: recipient})
}

// Close ends the connections of idle publishers, so that others can connect under the same names. Otherwise a broker that identifies
// clients by name would end the connections of both in turn, again and again.
func (p *Publishers) Close() {
	p.closed.Store(true)
	for _, g := range p.groups {
		g.mu.Lock()
		idle := slices.Clone(g.idle)
		g.mu.Unlock()
		for _, pub := range idle {
			pub.conn.Abort(errCut)
		}
	}
}

func (p *Publishers) count(took time.Duration, a *answer, deaf int) {
	p.latency.Record(took)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sums.Requests++
	p.sums.Accepted += int64(a.accepted)
	p.sums.Refused += int64(a.refused)
	p.sums.Deaf += int64(deaf)
	if a.err != nil && p.sums.Why == "" {
		p.sums.Why = a.err.Error()
	}
}

func (p *Publishers) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sums.Failed++
	if p.sums.Why == "" && err != nil {
		p.sums.Why = err.Error()
	}
}

// Progress returns the counts since Run began.
func (p *Publishers) Progress() Published {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sums
}
