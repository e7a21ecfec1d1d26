// Package stages tells from a CPU profile of a server how much each stage of a message's way takes, what runs on one goroutine or under one lock, and
// how fast a server can be with more cores than the one that was profiled.
package stages

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"godwit.dev/godwit/internal/engine/stage"
)

// deepest is the most functions of a stack that Go's CPU profiles keep: of deeper stacks the outermost are missing.
const deepest = 64

// sample is CPU time that was spent with one stack.
type sample struct {
	stack []string // functions, the innermost first, without the path of this module
	cpu   float64  // seconds
	of    marked   // the goroutine; the zero value: it has no name
}

// marked is a goroutine that has named itself (internal/engine/stage).
type marked struct {
	name string
	n    int
}

// module is the prefix of this project's functions.
const module = "godwit.dev/godwit/"

// read reads a CPU profile.
func read(r io.Reader) ([]sample, error) {
	p, err := profile.Parse(r)
	if err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	at := -1
	for i, t := range p.SampleType {
		if t.Type == "cpu" && t.Unit == "nanoseconds" {
			at = i
		}
	}
	if at < 0 {
		return nil, fmt.Errorf("read the profile: it has no CPU time, but %d other kinds of samples: take one of /debug/pprof/profile", len(p.SampleType))
	}
	samples := make([]sample, 0, len(p.Sample))
	for _, s := range p.Sample {
		samples = append(samples, sample{stack: stackOf(s), cpu: time.Duration(s.Value[at]).Seconds(), of: goroutineOf(s)})
	}
	return samples, nil
}

func stackOf(s *profile.Sample) (stack []string) {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil {
				stack = append(stack, strings.TrimPrefix(line.Function.Name, module))
			}
		}
	}
	return stack
}

// goroutineOf returns the goroutine's name, unless it has inherited the name from the goroutine that started it.
func goroutineOf(s *profile.Sample) (of marked) {
	in := cmp.Or(s.Label[stage.In]...)
	if in == "" || len(s.Location) < deepest && !onStack(s, in) {
		return marked{}
	}
	of.name = cmp.Or(s.Label[stage.Name]...)
	of.n, _ = strconv.Atoi(cmp.Or(s.Label[stage.Number]...)) // the first one, if it is no number
	return of
}

func onStack(s *profile.Sample, function string) bool {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil && line.Function.Name == function {
				return true
			}
		}
	}
	return false
}
