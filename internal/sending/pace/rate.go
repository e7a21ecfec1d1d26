package pace

import "time"

func (p *Pacer) grow(now time.Time) {
	since := now.Sub(p.grown)
	switch {
	case now.Before(p.until):
		p.grown = p.until
	case p.slow:
		if since < doubleEvery {
			return
		}
		if float64(p.used) >= p.rate*since.Seconds()/2 {
			p.rate = min(2*p.rate, fullRate)
			if p.cap > 0 {
				p.rate = min(p.rate, p.cap)
			}
		}
		p.grown, p.used = now, 0
	case p.cap > 0 && p.rate >= p.cap:
		p.grown = now
	case since > 0:
		by := growBy
		if p.cap == 0 {
			by = max(by, growShare*p.rate)
		}
		p.rate += by * since.Seconds()
		if p.cap > 0 {
			p.rate = min(p.rate, p.cap)
		}
		p.rate = min(p.rate, fullRate)
		p.grown = now
	}
}

// Objected handles a provider's 429, or a 503 with Retry-After: nothing leaves for the demanded time, then fewer messages a second.
// Objections to messages that left before the pause began count as one. after 0 means that the provider demanded no time: the pause then
// doubles with each objection in a row.
func (p *Pacer) Objected(now time.Time, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.until) {
		if until := now.Add(after); until.After(p.until) {
			p.until = until
		}
		return
	}
	p.pause(now, after)
	p.cut(now)
	p.grown = p.until
}

// pause stops all messages for the time after; 0: for a time that doubles with each pause in a row.
func (p *Pacer) pause(now time.Time, after time.Duration) {
	if after == 0 {
		after = min(minPause<<min(p.fails, 5), maxPause)
		p.fails++
	}
	p.until = now.Add(max(after, minPause))
}

// cut lowers the rate.
func (p *Pacer) cut(now time.Time) {
	rate := p.rate
	if p.slow { // the doubled rate may be far above the one that was used
		if took := now.Sub(p.grown) + doubleEvery; p.used > 0 {
			rate = min(rate, max(float64(p.used)/took.Seconds(), startRate/2))
		}
		p.slow = false
	}
	p.rate, p.grown = max(rate*cutTo, leastRate), now
}
