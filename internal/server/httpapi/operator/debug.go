package operator

import (
	"context"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// maxProfile limits the duration of a profile: recording costs the server some speed.
const maxProfile = 60 * time.Second

// Profile serves the Go runtime's profiles, for go tool pprof. cpu, block and mutex record for ?seconds= (30); the
// others are a snapshot. They contain names of functions, never data.
func (a *API) Profile(c *call.Call) error {
	seconds := 30
	if s := c.Query().Get("seconds"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > int(maxProfile/time.Second) {
			return notification.BadField("seconds", "must be a number from 1 to 60")
		}
		seconds = n
	}
	wait := func() {
		ctx, cancel := context.WithTimeout(c.Ctx, time.Duration(seconds)*time.Second)
		defer cancel()
		<-ctx.Done()
	}
	name := c.R.PathValue("name")
	switch name {
	case "profile":
		c.W.Header().Set("Content-Type", "application/octet-stream")
		if err := pprof.StartCPUProfile(c.W); err != nil {
			return problem.ProfileRunning.New()
		}
		c.Status = http.StatusOK
		wait()
		pprof.StopCPUProfile()
		return nil
	case "block":
		runtime.SetBlockProfileRate(10_000) // one sample per 10 µs blocked
		wait()
		runtime.SetBlockProfileRate(0)
	case "mutex":
		was := runtime.SetMutexProfileFraction(10)
		wait()
		runtime.SetMutexProfileFraction(was)
	case "heap":
		debug.FreeOSMemory() // free memory is returned to the system, so that resident memory matches the profile
	}
	p := pprof.Lookup(name)
	if p == nil {
		return problem.NoSuchProfile.New()
	}
	c.W.Header().Set("Content-Type", "application/octet-stream")
	c.Status = http.StatusOK
	return p.WriteTo(c.W, 0)
}
