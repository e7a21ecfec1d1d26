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

// Changes is implemented by stores that keep the history of copies, to list recent changes for all recipients. It serves callers that
// missed reports, and must be rare: it examines all copies.
type Changes interface {
	// Changed lists copies that were stored, delivered for the first time or settled after the time since, one slice per call, beginning
	// behind place; the first place is 0. next is the place of the following call; 0: there are no more. Copies that are overdue but not
	// settled yet are listed as open.
	Changed(ctx context.Context, since time.Time, place int64) (list []Change, next int64, err error)
}
