package signal

import (
	"sync"
	"time"
)

// paces hold the batching interval of each app. It grows by a constant while objects queue for fan-out, and is halved when they do not.
type paces struct {
	most time.Duration
	mu   sync.Mutex
	apps map[string]*pace
}

type pace struct {
	interval time.Duration
	judged   time.Time
}

func (p *paces) interval(app string) time.Duration {
	if p.most == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.apps[app]
	if a == nil || a.interval == 0 {
		return 0
	}
	if time.Since(a.judged) > batchForget {
		a.interval = 0 // an old measurement does not describe the present
	}
	return a.interval
}

// judge adjusts an app's interval by the time that an object has waited beyond its interval.
func (p *paces) judge(app string, queued time.Duration) {
	if p.most == 0 {
		return
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.apps[app]
	if a == nil {
		if p.apps == nil {
			p.apps = make(map[string]*pace)
		}
		a = &pace{}
		p.apps[app] = a
	}
	if now.Sub(a.judged) < batchJudgeEvery {
		return
	}
	a.judged = now
	switch {
	case queued > batchQueueing:
		a.interval = min(a.interval+batchStep, p.most)
	case queued < batchQueueing/4:
		if a.interval /= 2; a.interval < time.Millisecond {
			a.interval = 0
		}
	}
}
