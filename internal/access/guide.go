package access

import (
	"context"
	"fmt"
	"maps"

	"godwit.dev/godwit/internal/notify/notification"
)

// GuideState is how far people of an app are with a guide of the web page.
type GuideState string

// States of a guide. A guide without a state is open.
const (
	GuideTested GuideState = "tested" // a test message left
	GuideAway   GuideState = "away"   // people put it away
)

// maxGuides limits the guides with a state. The web page has fewer.
const maxGuides = 16

// Guides returns the states of an app's guides by their names.
func (r *Registry) Guides(app string) map[string]GuideState {
	if a := r.snap.Load().apps[app]; a != nil {
		return a.Guides
	}
	return nil
}

// SetGuide sets the state of a guide; empty: it is open. The state is not a setting: Revision stays.
func (r *Registry) SetGuide(ctx context.Context, app, name string, state GuideState) error {
	if err := notification.CheckName("guide", name); err != nil {
		return err
	}
	err := r.store.UpdateApp(ctx, app, func(a *App) error {
		all := maps.Clone(a.Guides)
		if all == nil {
			all = make(map[string]GuideState)
		}
		if state == "" {
			delete(all, name)
		} else {
			all[name] = state
		}
		if len(all) > maxGuides {
			return notification.BadField("guide", "%d guides have a state; at most %d may have one", len(all), maxGuides)
		}
		a.Guides = all
		return nil
	})
	if err != nil {
		return fmt.Errorf("note the guide %s of app %s: %w", name, app, err)
	}
	return r.Reload(ctx)
}
