// Package reload keeps an in-memory copy up to date with a store that other processes also change.
package reload

import (
	"context"
	"log/slog"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
)

// retry is the pause before a failed watch is repeated.
const retry = time.Second

// Store calls reload whenever watch reports a change, until ctx ends. Its error is always nil: if a store cannot be read for a while, the
// server continues. what names the settings in the log.
func Store(ctx context.Context, what string, watch func(ctx context.Context, changed func()) error, reload func(context.Context) error, log *slog.Logger) error {
	for ctx.Err() == nil {
		err := watch(ctx, func() {
			if err := reload(ctx); err != nil && ctx.Err() == nil {
				log.ErrorContext(ctx, "settings could not be reloaded; the former ones stay in force", "of", what, "error", err)
			}
		})
		if err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "settings could not be watched for changes; trying again", "of", what, "error", err)
			pause.For(ctx, retry)
		}
	}
	return nil
}
