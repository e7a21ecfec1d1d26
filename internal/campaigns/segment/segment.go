// Package segment stores expressions that pick an app's endpoints under names, for campaigns, counts and exports.
//
// A segment holds no members: whoever uses one reads its expression at that moment.
package segment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
)

// MaxSegments limits the segments of an app.
const MaxSegments = 200

// MaxDescription limits a description, in characters.
const MaxDescription = 500

// ErrUnknown says that the app has no segment of that name.
var ErrUnknown = errors.New("no such segment")

// UsedError reports that a segment cannot be deleted, since a campaign will need it.
type UsedError struct{ Segment, Campaign string }

func (e *UsedError) Error() string {
	return fmt.Sprintf("segment %s is used by campaign %s, which has not begun: change that campaign or delete it first", e.Segment, e.Campaign)
}

// Segment is an expression stored under a name.
type Segment struct {
	App, Name   string
	Where       string // see audience.Parse
	Description string // for people
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Revision identifies what the segment says now; empty: there is none.
func (s *Segment) Revision() string { return setting.RevisionAt(s.UpdatedAt) }

// matches fails with *setting.ChangedError if the segment has another revision.
func (s *Segment) matches(must setting.Match) error {
	return must.Check("segment "+s.Name, s.Revision())
}

// Change is what a segment shall say.
type Change struct {
	Where, Description string
	Must               setting.Match // that the segment must have
}

// Store keeps segments.
type Store interface {
	// Find reads an app's segment; nil: there is none.
	Find(ctx context.Context, app, name string) (*Segment, error)
	// Page reads up to limit segments of an app in the order of names, beginning after a name.
	Page(ctx context.Context, app, after string, limit int) ([]Segment, error)
	// Update and Delete are as in setting.Store.
	Update(ctx context.Context, app, name string, change func(one *Segment, others int) error) error
	Delete(ctx context.Context, app, name string, check func(one *Segment) error) (bool, error)
}
