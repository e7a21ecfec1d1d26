package preference

import (
	"context"
	"time"
)

// Begun is a step that a limit counts.
type Begun struct {
	ID        [16]byte // of the step, the same on each call
	Recipient string
	Category  string // that the limit is set for; Rest counts all that are not named together
	Limit     Limit
}

// Store keeps preferences, in the database of endpoints, and which steps have begun that limits count. Every implementation must
// pass storetest. Erasing a recipient erases both. Errors are mailbox.ErrNoSpace and mailbox.ErrClosed where they apply.
type Store interface {
	// Preferences reads those of some recipients of an app; recipients without any are left out.
	Preferences(ctx context.Context, app string, recipients []string) (map[string]Preferences, error)
	// SetPreferences replaces a recipient's. The zero ones are as good as none.
	SetPreferences(ctx context.Context, app, recipient string, p *Preferences) error
	// Begin counts steps of an app, in order, and reports of each whether its limit lets it start. A step that was counted before
	// may start and is not counted again.
	Begin(ctx context.Context, app string, steps []Begun, now time.Time) (may []bool, err error)
	// PruneBegun deletes up to limit steps that no limit counts any more.
	PruneBegun(ctx context.Context, now time.Time, limit int) (more bool, err error)
}
