package reload_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"godwit.dev/godwit/internal/cluster/reload"
)

func TestReloadGoesOnAfterFailedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log strings.Builder
		watches, reloads := 0, 0
		watch := func(ctx context.Context, changed func()) error {
			if watches++; watches == 1 {
				return errors.New("no disk")
			}
			changed()
			changed()
			<-ctx.Done()
			return nil
		}
		again := func(context.Context) error {
			if reloads++; reloads == 1 {
				return errors.New("half of it is missing")
			}
			cancel()
			return nil
		}
		if err := reload.Store(ctx, "apps", watch, again, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Error(err)
		}
		if watches != 2 || reloads != 2 {
			t.Errorf("watched %d times, reloaded %d times", watches, reloads)
		}
		for _, said := range []string{"settings could not be watched", "no disk", "settings could not be reloaded", "half of it is missing", "of=apps"} {
			if !strings.Contains(log.String(), said) {
				t.Errorf("the log does not say %q: %s", said, &log)
			}
		}
	})
}
