package app

import (
	"context"
	"os"

	"godwit.dev/godwit/internal/engine/memory"
	"godwit.dev/godwit/internal/server/app/core"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/config"
)

// startMemory makes the pacer, to which the gate reports opened connections. If the server may tune the process, the pacer limits the heap
// during a burst of connections, and returns memory to the system after each burst of work.
func startMemory(g *ground.Ground, c *core.Core, tunes bool) *memory.Pacer {
	pace := memory.NewPacer(c.Hub.Live)
	if !tunes {
		return pace
	}
	if paced(g.Settings) {
		g.Steps.AddRun("memory pace", ground.StorePatience, pace.Run)
	}
	g.Steps.AddRun("memory trim", ground.StorePatience, func(ctx context.Context) error { return memory.Trim(ctx, g.Stores) })
	return pace
}

// paced reports whether the server may steer the collector: a setting or GOGC takes precedence.
func paced(c *config.Config) bool { return c.GCPercent == 0 && os.Getenv("GOGC") == "" }
