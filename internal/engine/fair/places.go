package fair

import (
	"context"
	"slices"
	"sync"
)

// Places is a semaphore with a fixed number of places. Callers that find no free place wait: those of one app in their order, and apps take
// turns. One app never has all places, so the next app finds one however long the work takes.
type Places struct {
	most, mostOf int

	mu    sync.Mutex
	taken int
	apps  map[string]*guest
	turns []*guest // apps with waiting callers; the first is next
}

// guest is an app that has places, or waits for some.
type guest struct {
	app   string
	has   int
	waits []chan struct{} // closed when the caller has its place
}

// NewPlaces makes so many places.
func NewPlaces(most int) *Places {
	return &Places{most: most, mostOf: max(most-1, 1), apps: make(map[string]*guest)}
}

// Enter takes a place for an app as soon as one is free. It returns an error if ctx ends before. Leave gives the place back.
func (p *Places) Enter(ctx context.Context, app string) error {
	p.mu.Lock()
	g := p.apps[app]
	if g == nil {
		g = &guest{app: app}
		p.apps[app] = g
	}
	if len(g.waits) == 0 && g.has < p.mostOf && p.taken < p.most {
		g.has++
		p.taken++
		p.mu.Unlock()
		return nil
	}
	place := make(chan struct{})
	if g.waits = append(g.waits, place); len(g.waits) == 1 {
		p.turns = append(p.turns, g)
	}
	p.mu.Unlock()
	select {
	case <-place:
		return nil
	case <-ctx.Done():
		p.giveUp(g, place)
		return context.Cause(ctx)
	}
}

// giveUp ends a wait, and gives back a place that was granted meanwhile.
func (p *Places) giveUp(g *guest, place chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(g.waits, place)
	if i < 0 {
		p.leave(g)
		return
	}
	if g.waits = slices.Delete(g.waits, i, i+1); len(g.waits) == 0 {
		p.turns = slices.DeleteFunc(p.turns, func(o *guest) bool { return o == g })
		p.forget(g)
	}
}

// Leave gives back a place that Enter took.
func (p *Places) Leave(app string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(p.apps[app])
}

func (p *Places) leave(g *guest) {
	g.has--
	p.taken--
	p.forget(g)
	for passed := 0; passed < len(p.turns) && p.taken < p.most; {
		next := p.turns[0]
		p.turns = p.turns[1:]
		if next.has >= p.mostOf {
			p.turns = append(p.turns, next)
			passed++
			continue
		}
		passed = 0
		close(next.waits[0])
		if next.waits = slices.Delete(next.waits, 0, 1); len(next.waits) > 0 {
			p.turns = append(p.turns, next)
		}
		next.has++
		p.taken++
	}
}

func (p *Places) forget(g *guest) {
	if g.has == 0 && len(g.waits) == 0 {
		delete(p.apps, g.app)
	}
}
