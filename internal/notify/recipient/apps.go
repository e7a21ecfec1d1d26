package recipient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// AppsConfig holds what Apps needs.
type AppsConfig struct {
	Erasing func() []string                             // deleted apps whose data still exists
	Erased  func(ctx context.Context, app string) error // has none any more
	Mailbox Mailbox
	Objects Objects
	Rest    func(ctx context.Context, app string) error // erases everything except mailboxes
	Files   func(app string)                            // has files overwritten
	Own     lease.Func                                  // nil: no other server erases apps
	Log     *slog.Logger
}

// Apps erases the data of deleted apps.
type Apps struct{ AppsConfig }

// NewApps makes an Apps.
func NewApps(cfg AppsConfig) *Apps { return &Apps{cfg} }

const (
	appsEvery = time.Second
	// appLinger is how long the last writes of the app's sessions may take: the sessions end within a second of the deletion.
	appLinger = 5 * time.Second
	// appWorkers is how many goroutines erase recipients at the same time, so that they share commits. appPage is how many recipients are
	// read at once.
	appWorkers, appPage = 8, 500
)

// Run erases the data of deleted apps until the context ends.
func (a *Apps) Run(ctx context.Context) error {
	if a.Own == nil {
		a.follow(ctx, func() bool { return true })
		return nil
	}
	release := a.Own("apps", a.follow)
	<-ctx.Done()
	release()
	return nil
}

func (a *Apps) follow(ctx context.Context, held func() bool) {
	tick := time.NewTicker(appsEvery)
	defer tick.Stop()
	for {
		for _, app := range a.Erasing() {
			if !held() {
				return
			}
			if err := a.erase(ctx, app); err != nil && ctx.Err() == nil {
				a.Log.ErrorContext(ctx, "a deleted app could not be erased; trying again", "app", app, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// erase erases an app twice: sessions that end and sends under way may still write data after the first time.
func (a *Apps) erase(ctx context.Context, app string) error {
	if err := a.pass(ctx, app); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(appLinger):
	}
	if err := a.pass(ctx, app); err != nil {
		return err
	}
	a.Files(app)
	return a.Erased(ctx, app)
}

func (a *Apps) pass(ctx context.Context, app string) error {
	for after := ""; ; {
		list, next, err := a.Mailbox.Recipients(ctx, app, appPage, after)
		if err != nil {
			return fmt.Errorf("list recipients of app %s: %w", app, err)
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(appWorkers)
		for i := range list {
			g.Go(func() error {
				if err := a.Mailbox.Erase(ctx, app, list[i].Name); err != nil && !errors.Is(err, mailbox.ErrNotFound) {
					return err
				}
				return a.Objects.Erase(ctx, app, list[i].Name)
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if next == "" {
			break
		}
		after = next
	}
	return a.Rest(ctx, app)
}
