package mqttgate

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/server/problem"
)

// A publish waits for the disk or the bus, and an event loop must not wait. So each app has a lane: a goroutine that runs while messages of the
// app's clients wait, takes all that have come, and stores the notifications among them with one commit. Answers are sent in the order in which
// the messages came (section 4.6).

// job is a message of a client, and its answer. Without draft, put and message it only waits for those before it.
type job struct {
	c       *conn // nil: a will, which nobody waits for
	packet  uint16
	qos     byte
	bytes   int
	draft   *notification.Draft
	put     *object.Put
	key     object.Key // of put
	message *pubsub.Message
	expiry  uint32                // of message, in seconds; 0: none
	forward []byte                // properties that travel with message, without its expiry
	kept    []*notification.Draft // of message
	request *clientRequest
	reason  wire.Reason
	why     string
}

// lane holds the messages of an app that wait.
type lane struct {
	g       *Gateway
	app     string
	mu      sync.Mutex
	jobs    []job
	running bool
}

// waiting counts a connection's messages that are not answered, and those of QoS 2 that it has not released.
type waiting struct{ count, acks, bytes, held int }

var errTooMany = broken(wire.ReceiveMaxExceeded, "more messages are unanswered than the receive maximum allows")

// submit passes a message to its app's lane. A client that sends more than the server said it takes is disconnected; one that cannot know is
// not read until there is room.
func (c *conn) submit(j job, bytes int) error {
	j.bytes = bytes
	c.mu.Lock()
	w := &c.busy().waiting
	if j.qos > 0 && c.has(five) && w.acks >= maxInFlight {
		c.mu.Unlock()
		return errTooMany
	}
	w.count++
	w.bytes += bytes
	if j.qos > 0 {
		w.acks++
	}
	if w.count >= maxWaiting || w.bytes >= maxWaitingBytes || !c.has(five) && w.acks >= maxInFlight {
		c.set(congested)
		c.out.Pause()
	}
	c.mu.Unlock()
	c.gate.laneOf(c.sess.App()).add(j)
	return nil
}

// settled notes that a message was answered, and reads on if there is room again.
func (c *conn) settled(j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.more.waiting
	w.count--
	w.bytes -= j.bytes
	if j.qos > 0 {
		w.acks--
	}
	if c.has(congested) && w.count <= maxWaiting/2 && w.bytes <= maxWaitingBytes/2 && w.acks <= maxInFlight/2 {
		c.unset(congested)
		c.readOn()
	}
	c.tidy()
}

func (g *Gateway) laneOf(app string) *lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[app]
	if l == nil {
		l = &lane{g: g, app: app}
		g.lanes[app] = l
	}
	return l
}

// start runs f in a goroutine that Close waits for. False: the gateway is closed.
func (g *Gateway) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		g.running.Go(f)
	}
	return !g.over
}

func (l *lane) add(j job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, j)
	if !l.running {
		l.running = l.g.start(l.run)
	}
}

func (l *lane) run() {
	var done []job
	for {
		l.mu.Lock()
		jobs := l.jobs
		if len(jobs) == 0 {
			l.running = false
			l.mu.Unlock()
			return
		}
		n := min(len(jobs), maxBatch)
		batch := jobs[:n]
		if n == len(jobs) {
			clear(done)
			l.jobs = done[:0]
			if done = jobs; cap(done) > keptJobs {
				done = nil
			}
		} else {
			l.jobs = jobs[n:]
		}
		l.mu.Unlock()
		l.carryOut(batch)
	}
}

// carryOut publishes a batch and answers it. Messages of topics need no disk, so they come first.
func (l *lane) carryOut(batch []job) {
	ctx := context.Background() // a publish that was taken in is carried out
	l.keepFor(ctx, batch)
	for i := range batch {
		switch j := &batch[i]; {
		case j.reason.Failed():
		case j.message != nil:
			j.failed(l.g.cfg.Topics.Publish(ctx, l.app, j.message))
		case j.request != nil:
			l.ask(j)
		}
	}
	l.store(ctx, batch)
	for i := range batch {
		if c := batch[i].c; c != nil {
			c.out.Cork()
		}
	}
	for i := range batch {
		batch[i].answer()
	}
	for i := range batch {
		if c := batch[i].c; c != nil {
			c.out.Uncork()
		}
	}
}

// store stores the notifications and objects of a batch.
func (l *lane) store(ctx context.Context, batch []job) {
	var drafts []*notification.Draft
	var of []int
	for i := range batch {
		j := &batch[i]
		for _, d := range j.kept {
			drafts, of = append(drafts, d), append(of, i)
		}
		switch {
		case j.draft != nil:
			drafts, of = append(drafts, j.draft), append(of, i)
		case j.put != nil:
			_, _, err := l.g.cfg.Objects.Put(ctx, l.app, j.key, j.put)
			j.failed(err)
		}
	}
	if len(drafts) == 0 {
		return
	}
	for k, r := range l.g.cfg.Publisher.Publish(ctx, l.app, drafts) {
		err := r.Err
		for i := range r.Copies {
			if full := errors.Is(r.Copies[i].Err, mailbox.ErrFull); full && batch[of[k]].kept != nil {
				l.g.counts.dropped.Add(1) // a device that stays away must keep no message from the others
				continue
			}
			err = errors.Join(err, r.Copies[i].Err)
		}
		batch[of[k]].failed(err)
	}
}

// failed notes why a message could not be published; err may be nil.
func (j *job) failed(err error) {
	if err != nil {
		j.reason, j.why = reasonOfError(err)
	}
}

// answer answers a message that was carried out or has failed.
func (j *job) answer() {
	c := j.c
	if c == nil {
		return
	}
	switch {
	case j.reason.Failed():
		if err := c.deny(j, j.reason, j.why); err != nil {
			c.end(j.reason, j.why, nil)
		}
	case j.qos > 0:
		if j.reason == wire.Success {
			c.gate.counts.answered.Add(1)
		}
		c.reply(j, j.reason, "")
	}
	c.settled(j)
}

// describe returns the code and text of a publish that failed.
func describe(err error) (wire.Reason, string) {
	switch {
	case errors.Is(err, mailbox.ErrConflict):
		return wire.InvalidPayload, "the id was used with other content"
	case errors.Is(err, mailbox.ErrFull):
		return wire.QuotaExceeded, "the recipient has as many pending notifications as one may have"
	}
	p := problem.From(err)
	if p.Status >= http.StatusInternalServerError {
		return wire.Unspecified, "the message cannot be stored now; send it again"
	}
	return wire.InvalidPayload, strings.TrimSuffix(p.Error(), ": ")
}

// packetIDs is a set of QoS 2 packets. A client has few at a time.
type packetIDs struct {
	mu   sync.Mutex
	list []uint16
}

// add reports whether the packet is known. If not, it is added, unless there are too many.
func (p *packetIDs) add(id uint16) (known, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case slices.Contains(p.list, id):
		return true, false
	case len(p.list) >= maxUnreleased:
		return false, true
	}
	p.list = append(p.list, id)
	return false, false
}

func (p *packetIDs) remove(id uint16) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.list, id)
	if i >= 0 {
		p.list = slices.Delete(p.list, i, i+1)
	}
	return i >= 0
}

func (p *packetIDs) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list) == 0
}
