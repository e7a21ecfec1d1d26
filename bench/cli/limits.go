package cli

import (
	"godwit.dev/godwit/bench/confine"
	"godwit.dev/godwit/internal/server/cli/command"
	"godwit.dev/godwit/internal/server/config"
)

// errLimits rejects --cores and --memory when no server is started that they could limit.
var errLimits = command.Usagef("--cores and --memory are for servers that are started for the measurement")

// confined returns the resource limits for the servers; nil: none were set.
func (b *bench) confined() (*confine.Confines, error) {
	limits := confine.Limits{Cores: b.cores}
	switch {
	case b.cores == 0 && b.memory == "":
		return nil, nil
	case b.cores < 0:
		return nil, command.Usagef("--cores must not be negative")
	case b.url != "":
		return nil, errLimits
	}
	if b.memory != "" {
		size, err := config.ParseSize(b.memory)
		if err != nil {
			return nil, command.Usagef("--memory %q %v", b.memory, err)
		}
		if size < leastMemory {
			return nil, command.Usagef("--memory must be at least %s", leastMemory)
		}
		limits.Memory = int64(size)
	}
	c, err := confine.New(limits)
	if err != nil {
		return nil, command.Usagef("--cores and --memory: %v", err)
	}
	return c, nil
}

// leastMemory is less than a server needs to start.
const leastMemory = config.Size(16 << 20)

// unconfined returns an error if limits were set for a measurement that starts no server.
func (b *bench) unconfined() error {
	if b.cores != 0 || b.memory != "" {
		return errLimits
	}
	return nil
}
