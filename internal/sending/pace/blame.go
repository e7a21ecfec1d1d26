package pace

import (
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
)

// Constants for deciding whether an objection comes from one sick endpoint or from the whole provider, where the provider does not say.
// DESIGN.md gives the evidence for them, and the simulation in this package the figures.
const (
	// enough is the number of points for a verdict. An endpoint's objection adds a point; each accepted message removes a fraction of one.
	// So a few objections in a row suffice, or a high share of them.
	enough = 5
	// allowed is the share of objections that never leads to a verdict.
	allowed = 0.07
	// overSick is the factor by which the estimated share of sick endpoints adds to allowed.
	overSick = 1.5
	// mostAllowed limits the allowed share, however many endpoints are sick; mostSick limits the estimate of that share.
	mostAllowed, mostSick = 0.9, 0.5
	// measured is the number of messages counted before the estimate of sick endpoints may fall.
	measured = 500
	// recovered is the factor applied to their estimated share when an endpoint that had objected accepts a message: it was not sick.
	recovered = 0.5

	// A second verdict contradicts the first if it falls within recent, while the place accepts less than the part contradicted of its rate
	// at the first, and the share of objections is much the same: lowering the rate has not helped.
	recent       = 30 * time.Second
	contradicted = 0.95
	muchTheSame  = 1.5

	// probeGap is the pause between the messages that test whether a place accepts any again.
	probeGap = 100 * time.Millisecond
	// drawnFrom is the number of bookings over which the probing messages are scattered, so that chance picks them.
	drawnFrom = 500
	// maxObjectors limits the endpoints of one scope whose objections are remembered.
	maxObjectors = 50_000
)

// Try is one attempt at an endpoint.
type Try struct {
	Endpoint audience.ID
	Left     time.Time
}

// blame counts the objections in a scope and remembers the endpoints that object.
type blame struct {
	objectors map[audience.ID]objector
	score     float64 // points
	round     int     // number of the current round of collecting points: an endpoint gets one point in each
	sent      int     // messages of this round
	against   int     // objections among them

	judged  time.Time // the last verdict; messages that had left before it are no further evidence
	taken   bool      // some message was accepted since then
	probing bool      // no message was accepted since the pause: few may leave

	rate, share float64 // at the verdict before the rate was lowered
	most        float64 // messages a second that the place accepted then

	sick         float64 // estimated share of endpoints that object whatever the rate is
	seen, denied int     // messages and objections counted to see whether the share has fallen
}

// objector is an endpoint that has objected and accepted nothing since.
type objector struct {
	at, until time.Time // the time of its last objection, and the end of its rest
	round     int       // the round of its last objection
	own       bool      // other endpoints were served meanwhile, so its objections are about itself alone
}

// Resting returns the time until which an endpoint must rest; yes reports whether it lies ahead.
func (p *Pacer) Resting(id audience.ID, now time.Time) (until time.Time, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.blame.objectors[id]
	return o.until, o.until.After(now)
}

// Succeeded records that an endpoint has accepted a message, or given any answer other than a request to wait: the scope works.
func (p *Pacer) Succeeded(t Try, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &p.blame
	p.fails, p.lived = 0, now
	if _, known := b.objectors[t.Endpoint]; known {
		delete(b.objectors, t.Endpoint)
		b.sick *= recovered
	}
	if b.probing {
		b.probing, p.grown = false, now
	}
	if t.Left.Before(b.judged) {
		return
	}
	b.taken = true
	b.count(0)
	share := min(allowed+overSick*b.sick, mostAllowed)
	if b.score -= share / (1 - share); b.score <= 0 {
		b.begin()
	}
}

// ObjectedAt records an objection that may concern the endpoint alone or the whole place. The endpoint rests; when enough endpoints object,
// the scope slows down or pauses.
func (p *Pacer) ObjectedAt(t Try, now time.Time, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &p.blame
	o, known := b.objectors[t.Endpoint]
	// If an endpoint objects again while others are served, this and its later objections concern it alone.
	o.own = o.own || known && p.lived.After(o.at)
	counts := !o.own && (!known || o.round != b.round) && !t.Left.Before(b.judged) && !t.Left.Before(p.until)
	o.at, o.until, o.round = now, now.Add(after), b.round
	b.remember(t.Endpoint, o, now)
	if !counts {
		return
	}
	b.count(1)
	b.score++
	// The more endpoints are sick, the longer the rows of objections that occur by chance.
	if well := 1 - b.sick; b.score >= enough/(well*well) {
		p.judge(now, after)
	}
}

// Rests records that a provider wants an endpoint to rest for the given time, which is no evidence about the scope.
func (p *Pacer) Rests(t Try, now time.Time, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &p.blame
	o := b.objectors[t.Endpoint]
	o.own, o.at, o.until, o.round = true, now, now.Add(after), b.round
	b.remember(t.Endpoint, o, now)
}

// judge is called once the points suffice for a verdict that the place itself objects.
func (p *Pacer) judge(now time.Time, after time.Duration) {
	b := &p.blame
	share := float64(b.against) / float64(b.sent)
	same := now.Sub(b.judged) < recent && share <= muchTheSame*b.share
	switch {
	case b.probing || !b.taken && !b.judged.IsZero():
		// The place accepts nothing any more, and would accept nothing at a lower rate either.
		p.pause(now, after)
		b.probing, p.grown = true, p.until
	case same && p.rate < contradicted*b.most:
		p.rate, p.grown = max(p.rate, b.rate), now
		b.sick = min(max(b.sick, float64(b.denied)/float64(b.seen)), mostSick)
		b.most = 0
	default:
		p.cut(now)
		before := p.rate / cutTo
		if most := before * (1 - share); !same || most > b.most {
			b.rate, b.share, b.most = before, share, most
		}
		b.seen, b.denied = 0, 0
	}
	b.judged, b.taken = now, false
	b.begin()
}

// begin begins a round.
func (b *blame) begin() {
	b.score, b.sent, b.against = 0, 0, 0
	b.round++
}

// count adds one message, with objections 1 if it was objected to, else 0.
func (b *blame) count(objections int) {
	b.sent++
	b.against += objections
	b.seen++
	b.denied += objections
	if b.seen >= measured {
		b.sick = min(b.sick, float64(b.denied)/float64(b.seen))
		b.seen, b.denied = 0, 0
	}
}

func (b *blame) remember(id audience.ID, o objector, now time.Time) {
	if b.objectors == nil {
		b.objectors = make(map[audience.ID]objector)
	}
	if _, known := b.objectors[id]; !known && len(b.objectors) >= maxObjectors {
		for id, o := range b.objectors {
			if o.until.Before(now) {
				delete(b.objectors, id)
			}
		}
		if len(b.objectors) >= maxObjectors {
			return
		}
	}
	b.objectors[id] = o
}
