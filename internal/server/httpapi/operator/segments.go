package operator

import (
	"context"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Segments stores an app's segments.
type Segments interface {
	Get(ctx context.Context, app, name string) (segment.Segment, error)
	List(ctx context.Context, app, after string, limit int) ([]segment.Segment, error)
	Set(ctx context.Context, app, name string, c segment.Change) (set segment.Segment, created bool, err error)
	Delete(ctx context.Context, app, name string, must setting.Match) error
}

// maxSegmentBody is enough bytes for an expression and a description, with escapes in their JSON.
const maxSegmentBody = 2*audience.MaxExprBytes + 12*segment.MaxDescription + 1<<10

type segmentJSON struct {
	Name        string      `json:"name"`
	Where       string      `json:"where"`
	Description string      `json:"description"`
	CreatedAt   call.Moment `json:"created_at"`
	UpdatedAt   call.Moment `json:"updated_at"`

	revised
}

func viewSegment(s *segment.Segment) segmentJSON {
	return segmentJSON{
		Name: s.Name, Where: s.Where, Description: s.Description, CreatedAt: call.Moment(s.CreatedAt), UpdatedAt: call.Moment(s.UpdatedAt),
		revised: atRevision(s.Revision()),
	}
}

// segments returns the calls below /v1/segments. A key that may send to an audience may name it.
func (a *API) segments() settings[segmentJSON] {
	return settings[segmentJSON]{
		kind: "segment", path: "/v1/segments", name: "name", most: maxSegmentBody, write: access.Publish,
		check: func(name string) error { return segment.CheckName("name", name) },
		drop: func(c *call.Call, name string, must setting.Match) error {
			return a.Segments.Delete(c.Ctx, c.Key.App, name, must)
		},
		list: func(c *call.Call) ([]segmentJSON, error) {
			list, err := a.Segments.List(c.Ctx, c.Key.App, "", segment.MaxSegments)
			return views(list, viewSegment), err
		},
		get: func(c *call.Call, name string) (segmentJSON, error) {
			one, err := a.Segments.Get(c.Ctx, c.Key.App, name)
			return viewSegment(&one), err
		},
		set: func(c *call.Call, name string, body []byte, must setting.Match) (v segmentJSON, created bool, err error) {
			change := segment.Change{Must: must}
			if err := (call.Fields{"where": &change.Where, "description": &change.Description}).DecodeOrNull(body); err != nil {
				return v, false, err
			}
			one, created, err := a.Segments.Set(c.Ctx, c.Key.App, name, change)
			return viewSegment(&one), created, err
		},
	}
}
