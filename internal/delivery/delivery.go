// Package delivery takes a publish all the way: checked, stored, routed.
package delivery

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/notification"
)

// Service publishes.
type Service struct{}

// Result is what became of one publish: either Err, or one Copy per recipient in the order of the draft's To.
type Result struct {
	ID     string
	Err    error // the publish as a whole was refused: *notification.FieldError, a store's error, ...
	Copies []Copy
}

// Copy is one recipient's part of a publish.
type Copy struct {
	To        string
	Status    notification.Status
	Duplicate bool
	ExpiresAt time.Time
	Err       error // this copy was refused: *notification.FieldError, mailbox.ErrConflict, mailbox.ErrFull
}

// Publish stores drafts for an app and routes them. It returns once everything is on disk, with one result a draft.
func (s *Service) Publish(ctx context.Context, app string, drafts []*notification.Draft) []Result {
	panic("wiring")
}
