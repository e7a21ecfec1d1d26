package admin

import (
	"context"
	"errors"

	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/server/lifecycle"
)

// arrivals is the list of new notifications on a recipient's page.
type arrivals struct {
	Name  string
	Items []timeline.Arrival
	More  bool // more notifications arrived at once than are shown
}

// tapRecipient sends a recipient's notifications as they arrive, as godwit listen --peek does: it acknowledges nothing, and the recipient
// does not count as connected.
func (a *admin) tapRecipient(v *visit) error {
	name, err := nameInPath(v.r)
	if err != nil {
		return err
	}
	s, done, err := a.open(v)
	if err != nil {
		return err
	}
	defer done()
	ctx, end := lifecycle.Until(v.r.Context(), a.Draining)
	defer end()
	err = a.Timelines.Tap(ctx, v.person.App, name, func(list []timeline.Arrival, more bool) error {
		return a.tell(s, "recipient", "arrivals", arrivals{Name: name, Items: list, More: more})
	}, func() error { return a.alive(s) })
	if err != nil && ctx.Err() == nil && !errors.Is(err, errLeft) && !errors.Is(err, context.Canceled) {
		a.Log.WarnContext(ctx, "what comes for a recipient cannot be shown; browsers ask again", "app", v.person.App, "recipient", name, "error", err)
	}
	return nil // the answer has begun
}
