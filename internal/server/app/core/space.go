package core

import (
	"context"
	"log/slog"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/server/config"
)

// spaceEvery is the interval of checks whether the disk is full.
const spaceEvery = time.Second

// watchSpace logs once when publishes begin to be refused for lack of space, and once when that has ended. A metric counts the refusals: a
// log line for each would fill the rest of the disk.
func watchSpace(ctx context.Context, log *slog.Logger, box *mailbox.Mailbox, reserve config.Size) error {
	tick := time.NewTicker(spaceEvery)
	defer tick.Stop()
	for full := false; ; {
		full = tellSpace(ctx, log, full, box.Stats(), reserve)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tellSpace logs a change since the last check, and returns the current state.
func tellSpace(ctx context.Context, log *slog.Logger, before bool, s mailbox.Stats, reserve config.Size) (full bool) {
	if s.Full == before {
		return before
	}
	free := config.Size(max(s.FreeBytes, 0))
	if s.Full {
		log.ErrorContext(ctx, "the disk is short of space: publishes are refused until there is more", "free", free, "min_free", reserve)
	} else {
		log.InfoContext(ctx, "the disk has space again: publishes are taken", "free", free, "min_free", reserve)
	}
	return s.Full
}
