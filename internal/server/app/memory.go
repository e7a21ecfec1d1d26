package app

import (
	"context"
	"os"

	"godwit.dev/godwit/internal/engine/memory"
	"godwit.dev/godwit/internal/server/app/core"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/config"
)

// startMemory starts what gives memory back to the system after each burst of work and keeps the heap small in a burst
// of connections, of which it is to be told, if it may tune the process.
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

// paced reports whether the collector is ours to steer: whoever has set how it works means it.
func paced(c *config.Config) bool { return c.GCPercent == 0 && os.Getenv("GOGC") == "" }
