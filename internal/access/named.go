package access

import (
	"context"
	"fmt"
	"maps"

	"godwit.dev/godwit/internal/cluster/setting"
)

// named is a kind of an app's settings that have names and are stored with the app.
type named[T any] struct {
	what string // in words, before the name: service
	log  string // message of a change
	key  string // of the name in the log
	of   func(*App) *map[string]T
	none error // the name has no settings
}

// revisionOf is the revision of a setting: it depends on what the setting says.
func revisionOf[T any](all map[string]T, name string) string {
	one, there := all[name]
	if !there {
		return ""
	}
	return setting.RevisionOf(one)
}

// change alters all settings of the kind that an app has, if that of the name matches. Every server that shares the apps' store uses them
// within a second.
func (k named[T]) change(ctx context.Context, r *Registry, app, name string, must setting.Match, change func(map[string]T) error) error {
	err := r.store.UpdateApp(ctx, app, func(a *App) error {
		all := maps.Clone(*k.of(a))
		if all == nil {
			all = make(map[string]T)
		}
		if err := must.Check(k.what+" "+name, revisionOf(all, name)); err != nil {
			return err
		}
		if err := change(all); err != nil {
			return err
		}
		*k.of(a) = all
		return nil
	})
	if err != nil {
		return fmt.Errorf("change %s %.128s of app %s: %w", k.what, name, app, err)
	}
	r.log.InfoContext(ctx, k.log, "app", app, k.key, name) //nolint:sloglint // one message a kind
	return r.Reload(ctx)
}

// delete removes the setting of a name, if it matches.
func (k named[T]) delete(ctx context.Context, r *Registry, app, name string, must setting.Match) error {
	return k.change(ctx, r, app, name, must, func(all map[string]T) error {
		if _, there := all[name]; !there {
			return k.none
		}
		delete(all, name)
		return nil
	})
}
