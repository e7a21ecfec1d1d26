package access

import (
	"context"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
)

// Categories returns an app's settings for its categories.
func (r *Registry) Categories(app string) map[string]preference.Category {
	if a := r.snap.Load().apps[app]; a != nil {
		return a.Categories
	}
	return nil
}

// Gathers reports whether a category of an app gathers.
func (r *Registry) Gathers(app string) bool { return r.snap.Load().gathers[app] }

// gathering returns the apps of which a category gathers.
func gathering(apps map[string]*App) map[string]bool {
	all := make(map[string]bool)
	for name, a := range apps {
		for _, c := range a.Categories {
			if !c.Digest.IsZero() {
				all[name] = true
			}
		}
	}
	return all
}

var categories = named[preference.Category]{
	what: "category", log: "category changed", key: "category", none: ErrUnknownCategory,
	of: func(a *App) *map[string]preference.Category { return &a.Categories },
}

// SetCategory sets a category's settings in an app, if they match. Every server that shares the apps' store uses them within a second.
func (r *Registry) SetCategory(ctx context.Context, app, name string, c preference.Category, must setting.Match) error {
	if err := preference.CheckCategory("category", name); err != nil {
		return err
	}
	return categories.change(ctx, r, app, name, must, func(all map[string]preference.Category) error {
		if _, there := all[name]; !there && len(all) >= preference.MaxCategories {
			return notification.BadField("category", "the app has said something of %d categories; at most %d are allowed", len(all), preference.MaxCategories)
		}
		all[name] = c
		return nil
	})
}

// DeleteCategory deletes a category's settings, if they match. It fails with ErrUnknownCategory if the category has none.
func (r *Registry) DeleteCategory(ctx context.Context, app, name string, must setting.Match) error {
	return categories.delete(ctx, r, app, name, must)
}
