// Package reload keeps a copy in memory in step with a store that other processes change, too.
package reload

import (
	"context"
	"log/slog"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
)

// retry is how soon a store is watched again after it could not be.
const retry = time.Second

// Store runs reload whenever watch says that something has changed, until ctx ends. Its error is always nil: a store
// that cannot be read for a while is no reason to stop serving. The argument what names these settings in the log.
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
