package preference

import (
	"context"
	"time"
)

// Begun is a started step that counts towards a limit.
type Begun struct {
	ID        [16]byte // id of the step, the same in each call
	Recipient string
	Category  string // category with the limit; Rest counts all categories without an entry of their own together
	Limit     Limit
}

// Store stores preferences, in the database of endpoints, and the started steps that count towards limits. Every implementation must pass
// storetest. Erasing a recipient erases both. Errors are mailbox.ErrNoSpace and mailbox.ErrClosed where they apply.
type Store interface {
	// Preferences returns the preferences of some of an app's recipients; recipients without any are omitted.
	Preferences(ctx context.Context, app string, recipients []string) (map[string]Preferences, error)
	// SetPreferences replaces a recipient's preferences. The zero value removes them.
	SetPreferences(ctx context.Context, app, recipient string, p *Preferences) error
	// Begin counts an app's steps, in order, and reports for each whether its limit lets it start. A step that was counted before may
	// start, and is not counted again.
	Begin(ctx context.Context, app string, steps []Begun, now time.Time) (may []bool, err error)
	// PruneBegun deletes up to limit steps that no longer count towards any limit.
	PruneBegun(ctx context.Context, now time.Time, limit int) (more bool, err error)
}
