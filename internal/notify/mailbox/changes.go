package mailbox

import (
	"context"
	"time"
)

// Change is one copy that has changed.
type Change struct {
	App string
	Record
}

// Changes is the ability of stores that keep the history of copies to list recent changes, for all recipients. It serves callers that missed
// reports, and is rare: it looks at all copies that there are.
type Changes interface {
	// Changed lists copies that were stored, delivered for the first time or settled since a time, a slice at a time: those behind a place;
	// the first place is 0. next is the place to go on from; 0: that was all. Copies that are overdue but not settled yet are listed as
	// open.
	Changed(ctx context.Context, since time.Time, place int64) (list []Change, next int64, err error)
}
