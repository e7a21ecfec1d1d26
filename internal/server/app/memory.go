package app

import (
	"context"
	"os"

	"godwit.dev/godwit/internal/engine/memory"
	"godwit.dev/godwit/internal/server/config"
)

// startMemory starts what gives memory back to the system after each burst of work and keeps the heap small in a burst
// of connections.
func (a *App) startMemory(context.Context) error {
	a.pace = memory.NewPacer(a.hub.Live)
	if paced(a.cfg) {
		a.steps.addRun("memory pace", storePatience, a.pace.Run, a.fail)
	}
	run := func(ctx context.Context) error { return memory.Trim(ctx, a.stores) }
	a.steps.addRun("memory trim", storePatience, run, a.fail)
	return nil
}

// paced reports whether the collector is ours to steer: whoever has set how it works means it.
func paced(c *config.Config) bool { return c.GCPercent == 0 && os.Getenv("GOGC") == "" }
