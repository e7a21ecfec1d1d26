package pace

import (
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
)

// Constants for deciding whether an objection is one sick endpoint's or the whole provider's, where the provider does
// not say. DESIGN.md has the evidence, the simulation in this package the figures.
const (
	// enough points are a verdict. An endpoint's objection is a point; each message that is taken takes a part of a
	// point away, so that objections add up in a row or in proportion.
	enough = 5
	// allowed is the share of objections that never adds up.
	allowed = 0.07
	// overSick is how many times the share of sick endpoints, where that is known, is allowed besides.
	overSick = 1.5
	// mostAllowed is the share that adds up however many are sick, mostSick how many are ever believed to be.
	mostAllowed, mostSick = 0.9, 0.5
	// measured is how many messages must be counted before the estimate of sick endpoints may fall.
	measured = 500
	// recovered is what is left of their share when one that had objected takes something: it was not sick.
	recovered = 0.5

	// A verdict is contradicted by a second one within this time at less than this part of what the place took when
	// the first fell, if the share of objections is much the same: the rate has nothing to do with it.
	recent       = 30 * time.Second
	contradicted = 0.95
	muchTheSame  = 1.5

	// probeGap is the pause between the messages that test whether a place accepts any again.
	probeGap = 100 * time.Millisecond
	// drawnFrom is the number of bookings among which the probing messages are scattered, so that chance picks them.
	drawnFrom = 500
	// maxObjectors limits the endpoints of one scope whose objections are kept.
	maxObjectors = 50_000
)

// Try is one attempt at an endpoint.
type Try struct {
	Endpoint audience.ID
	Left     time.Time
}

// blame counts the objections in a scope and keeps the endpoints that object.
type blame struct {
	objectors map[audience.ID]objector
	score     float64 // points
	round     int     // of collecting points: an endpoint has one in each
	sent      int     // messages of this round
	against   int     // objections among them

	judged  time.Time // the last verdict; messages that had left before it are no further evidence
	taken   bool      // something was since then
	probing bool      // nothing was since the pause: few may leave

	rate, share float64 // at the verdict before the rate was lowered
	most        float64 // messages a second that the place took then

	sick         float64 // estimated share of endpoints that object at any rate
	seen, denied int     // messages and objections, to see whether it is less
}

// objector is an endpoint that has objected and not taken anything since.
type objector struct {
	at, until time.Time // the time of its last objection, and the end of its rest
	round     int       // in which it did
	own       bool      // others were served meanwhile
}

// Resting returns until when an endpoint must rest, if it has objected and that time lies ahead.
func (p *Pacer) Resting(id audience.ID, now time.Time) (until time.Time, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.blame.objectors[id]
	return o.until, o.until.After(now)
}

// Succeeded notes that an endpoint has taken a message, or said anything else than that it must wait: the scope works.
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

// ObjectedAt notes an objection that may be the endpoint's own or the place's. The endpoint rests; when enough of them
// object, the scope slows down or waits.
func (p *Pacer) ObjectedAt(t Try, now time.Time, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &p.blame
	o, known := b.objectors[t.Endpoint]
	// An endpoint that objects again while others are served speaks for itself alone, and is taken so from then on.
	o.own = o.own || known && p.lived.After(o.at)
	counts := !o.own && (!known || o.round != b.round) && !t.Left.Before(b.judged) && !t.Left.Before(p.until)
	o.at, o.until, o.round = now, now.Add(after), b.round
	b.remember(t.Endpoint, o, now)
	if !counts {
		return
	}
	b.count(1)
	b.score++
	// The more endpoints are sick, the more of them come in a row by chance.
	if well := 1 - b.sick; b.score >= enough/(well*well) {
		p.judge(now, after)
	}
}

// Rests notes that a provider wants an endpoint to rest for so long, which is no evidence about the scope.
func (p *Pacer) Rests(t Try, now time.Time, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &p.blame
	o := b.objectors[t.Endpoint]
	o.own, o.at, o.until, o.round = true, now, now.Add(after), b.round
	b.remember(t.Endpoint, o, now)
}

// judge is called once enough points say that the place itself objects.
func (p *Pacer) judge(now time.Time, after time.Duration) {
	b := &p.blame
	share := float64(b.against) / float64(b.sent)
	same := now.Sub(b.judged) < recent && share <= muchTheSame*b.share
	switch {
	case b.probing || !b.taken && !b.judged.IsZero():
		// Nothing gets through any more, and would not at a lower rate.
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

// count notes one more message, and whether it was objected to.
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
