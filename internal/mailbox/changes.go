package mailbox

import (
	"context"
	"time"
)

// Change is one copy of which something has changed.
type Change struct {
	App string
	Record
}

// Changes is what stores can do that keep what became of copies: to say what has changed lately, whoever it was for. It is for who has missed
// to be told, and rare: it looks at all copies that there are.
type Changes interface {
	// Changed lists copies that were stored, delivered for the first time or settled since a time, a slice at a time: those behind a place,
	// of which the first is 0. next is the place to go on from; 0: that was all. What is overdue but has not been settled is told as open.
	Changed(ctx context.Context, since time.Time, place int64) (list []Change, next int64, err error)
}
