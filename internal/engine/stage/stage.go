// Package stage names goroutines in CPU profiles, so that a measurement can tell how much each of them works. A goroutine names itself once, where
// it starts: messages cost nothing more.
package stage

import (
	"context"
	"runtime"
	"runtime/pprof"
	"strconv"
)

// Labels of a goroutine in profiles.
const (
	Name   = "goroutine" // what it is
	Number = "n"         // which one of several
	In     = "in"        // the function that named it. Goroutines that this one starts inherit the labels, but do not have this function on their stack
)

// Mark names the calling goroutine in profiles: as the nth of those with that name. The function that calls Mark must not return before the goroutine ends.
func Mark(name string, n int) {
	in := ""
	var pc [1]uintptr
	if runtime.Callers(2, pc[:]) > 0 {
		frame, _ := runtime.CallersFrames(pc[:]).Next()
		in = frame.Function
	}
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(Name, name, Number, strconv.Itoa(n), In, in)))
}
