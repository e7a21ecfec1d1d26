package campaign

import (
	"context"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/notification"
)

// Segments looks up stored segments.
type Segments interface {
	// Fill replaces the segment that an audience names by the segment's expression, which it returns; empty: it names none. Errors name the
	// invalid field as a part of field.
	Fill(ctx context.Context, app string, a *audience.Audience, field string) (where string, err error)
}

// Segment is the stored segment that a campaign's audience is within, and its expression when that was last read: when the campaign was made
// or changed, and at the latest when it began to send.
type Segment struct {
	Name  string `json:"name"`
	Where string `json:"where"`
	And   string `json:"and,omitempty"` // the audience's own expression beside it
}

// Asked returns the audience as its author wrote it: with the name of the segment. Spec.Audience has the segment's expression in its place,
// which servers of earlier versions understand, too.
func (s *Spec) Asked() audience.Audience {
	a := s.Audience
	if g := s.Segment; g != nil && a.Segment == "" {
		named := a
		named.Segment, named.Where = g.Name, g.And
		if in := named.Within(g.Where); in.Where == a.Where { // else somebody has replaced the audience since
			return named
		}
	}
	return a
}

// fill looks up the segment that a spec's audience names.
func (s *Service) fill(ctx context.Context, app string, spec *Spec) error {
	asked := spec.Asked()
	in := asked
	spec.Segment = nil
	if asked.Segment != "" {
		if s.cfg.Segments == nil {
			return notification.BadField("audience.segment", "there are no segments here")
		}
		where, err := s.cfg.Segments.Fill(ctx, app, &in, "audience")
		if err != nil {
			return err
		}
		spec.Segment = &Segment{Name: asked.Segment, Where: where, And: asked.Where}
	}
	spec.Audience = in
	return nil
}

// current reads a campaign. Unless it has begun, it gets the expression that its segment has now: the moment at which it begins to send
// decides.
func (s *Service) current(ctx context.Context, app, id string) (*Campaign, error) {
	c, err := s.store.Get(ctx, app, id)
	if err == nil && c.Spec.Segment != nil && c.StartedAt.IsZero() {
		err = s.fill(ctx, app, &c.Spec)
	}
	return c, err
}

// take takes over the segment's expression that current has read, unless the campaign was changed meanwhile.
func (c *Campaign) take(now *Campaign) {
	g, have := now.Spec.Segment, c.Spec.Segment
	if g != nil && have != nil && c.StartedAt.IsZero() && have.Name == g.Name && have.And == g.And {
		c.Spec.Segment, c.Spec.Audience.Where = g, now.Spec.Audience.Where
	}
}

// UsesSegment returns the name of a campaign that has not begun and whose audience is within a segment; empty: there is none.
func (s *Service) UsesSegment(ctx context.Context, app, segment string) (name string, err error) {
	list, err := s.store.Unbegun(ctx, app)
	if err != nil {
		return "", err
	}
	for _, c := range list {
		if g := c.Spec.Segment; g == nil || g.Name != segment {
			continue
		}
		if c.Spec.Name != "" {
			return c.Spec.Name, nil
		}
		return c.ID, nil
	}
	return "", nil
}
