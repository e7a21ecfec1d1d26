package access

import (
	"context"
	"fmt"
	"maps"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/notification"
)

// Categories returns an app's settings for its categories.
func (r *Registry) Categories(app string) map[string]preference.Category {
	if a := r.snap.Load().apps[app]; a != nil {
		return a.Categories
	}
	return nil
}

// SetCategory sets a category's settings in an app. Every server that shares the apps' store uses them within a second.
func (r *Registry) SetCategory(ctx context.Context, app, name string, c preference.Category) error {
	if err := preference.CheckCategory("category", name); err != nil {
		return err
	}
	return r.changeCategories(ctx, app, name, func(all map[string]preference.Category) error {
		if _, there := all[name]; !there && len(all) >= preference.MaxCategories {
			return notification.BadField("category", "the app has said something of %d categories; at most %d are allowed", len(all), preference.MaxCategories)
		}
		all[name] = c
		return nil
	})
}

// DeleteCategory deletes a category's settings. It fails with ErrUnknownCategory if the category has none.
func (r *Registry) DeleteCategory(ctx context.Context, app, name string) error {
	return r.changeCategories(ctx, app, name, func(all map[string]preference.Category) error {
		if _, there := all[name]; !there {
			return ErrUnknownCategory
		}
		delete(all, name)
		return nil
	})
}

func (r *Registry) changeCategories(ctx context.Context, app, name string, change func(map[string]preference.Category) error) error {
	err := r.store.UpdateApp(ctx, app, func(a *App) error {
		all := maps.Clone(a.Categories)
		if all == nil {
			all = make(map[string]preference.Category)
		}
		if err := change(all); err != nil {
			return err
		}
		a.Categories = all
		return nil
	})
	if err != nil {
		return fmt.Errorf("change category %.128s of app %s: %w", name, app, err)
	}
	r.log.InfoContext(ctx, "category changed", "app", app, "category", name)
	return r.Reload(ctx)
}
