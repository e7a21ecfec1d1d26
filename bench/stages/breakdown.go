package stages

import (
	"cmp"
	"io"
	"slices"
	"strings"
)

// Breakdown tells where a server's CPU time went. Times are seconds, as far as the profile sampled them.
type Breakdown struct {
	Total  float64
	Stages []Share // in the order of Order, those without samples left out; together they are Total
	Places []Place // the busiest first. A sample may belong to several, such as a lock that a loop holds
}

// Share is the CPU time of a stage.
type Share struct {
	Stage string
	CPU   float64
}

// Place is what one goroutine at a time does, or one of several goroutines that divide the work.
type Place struct {
	Name  string
	Lanes int     // how many goroutines there were; a lock and a single goroutine: 1
	CPU   float64 // of all of them
	Most  float64 // of the busiest

	follow lanes // how many there are on other machines
	each   map[int]float64
}

// Parse reads a CPU profile of a server.
func Parse(profile io.Reader) (*Breakdown, error) {
	samples, err := read(profile)
	if err != nil {
		return nil, err
	}
	return breakdown(samples), nil
}

func breakdown(samples []sample) *Breakdown {
	b := &Breakdown{}
	stages, found := make(map[string]float64), make(map[string]*Place)
	for i := range samples {
		s := &samples[i]
		b.Total += s.cpu
		stages[classify(s.stack)] += s.cpu
		for _, at := range placesOf(s) {
			p := found[at.name]
			if p == nil {
				p = &Place{Name: at.name, follow: goroutines[at.name], each: make(map[int]float64)}
				found[at.name] = p
			}
			p.CPU += s.cpu
			p.each[at.n] += s.cpu
		}
	}
	for _, name := range Order() {
		if cpu := stages[name]; cpu > 0 {
			b.Stages = append(b.Stages, Share{name, cpu})
		}
	}
	for _, p := range found {
		p.Lanes = len(p.each)
		for _, cpu := range p.each {
			p.Most = max(p.Most, cpu)
		}
		b.Places = append(b.Places, *p)
	}
	slices.SortFunc(b.Places, func(x, y Place) int { return cmp.Or(cmp.Compare(y.Most, x.Most), strings.Compare(x.Name, y.Name)) })
	return b
}

// classify returns the stage of a stack.
func classify(stack []string) string {
	for _, f := range stack {
		if stage, ok := longest(f); ok {
			return stage
		}
	}
	return Unknown
}

// longest returns the stage of the longest name with which a function begins. A name ends where a function's, a type's or a package's does, or
// within a function's.
func longest(f string) (stage string, ok bool) {
	for end := len(f); end > 0; end-- {
		if stage, ok = stageOf[f[:end]]; ok {
			return stage, true
		}
	}
	return "", false
}

// placesOf returns the goroutines and locks that a sample belongs to, each once.
func placesOf(s *sample) (at []marked) {
	add := func(m marked) {
		if !slices.ContainsFunc(at, func(had marked) bool { return had.name == m.name }) {
			at = append(at, m)
		}
	}
	if s.of.name != "" {
		add(s.of)
	}
	for _, f := range s.stack {
		for _, p := range places {
			if strings.HasPrefix(f, p.begins) {
				add(marked{name: p.name})
			}
		}
		if f == committing && !strings.HasPrefix(s.of.name, writerName("")) {
			if name := writerOf(s.stack); name != "" {
				add(marked{name: name})
			}
		}
	}
	return at
}

// Busiest returns the place with the most CPU time on one goroutine; nil: there is none.
func (b *Breakdown) Busiest() *Place {
	if len(b.Places) == 0 {
		return nil
	}
	return &b.Places[0]
}

// Prediction is how fast a server with a number of cores can be.
type Prediction struct {
	Cores int
	Rate  float64 // units a second
	Limit string  // the place that sets it; "": the cores
}

// Predict tells how many units a second a server with so many cores can reach, where each unit takes cpu seconds in all on the profiled server: until
// all cores are busy, or one place is. Waiting for locks, and the memory that cores share, are not in it: the real rate is lower.
func (b *Breakdown) Predict(cpu float64, n int) Prediction {
	p := Prediction{Cores: n, Rate: float64(n) / cpu}
	for i := range b.Places {
		if rate := b.Allows(&b.Places[i], cpu, n); rate < p.Rate {
			p.Rate, p.Limit = rate, b.Places[i].Name
		}
	}
	return p
}

// Allows returns the units a second that a place allows on a machine with n cores: until the busiest of its goroutines is busy all the time. It has at
// least its part of the work, and no less than the busiest had when the server was profiled: one connection stays on one loop.
func (b *Breakdown) Allows(at *Place, cpu float64, n int) float64 {
	busiest := at.Most
	if at.follow != several {
		busiest = max(busiest, at.CPU/float64(at.follow.on(n)))
	}
	return b.Total / (busiest * cpu)
}
