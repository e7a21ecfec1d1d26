package segment

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
)

// User returns the name of a campaign that has not begun and uses a segment of the app; empty: none does.
type User func(ctx context.Context, app, segment string) (campaign string, err error)

// Service manages segments.
type Service struct {
	store Store
	now   func() time.Time
	user  User // nil: nobody uses segments
}

// New returns a Service; now is the store's clock.
func New(st Store, now func() time.Time) *Service { return &Service{store: st, now: now} }

// AskBeforeDeletion sets who is asked before a segment is deleted. It must be called before the first deletion.
func (s *Service) AskBeforeDeletion(u User) { s.user = u }

// Set stores a segment, or changes one.
func (s *Service) Set(ctx context.Context, app, name string, c Change) (set Segment, created bool, err error) {
	if err := Check(name, c); err != nil {
		return set, false, err
	}
	err = s.store.Update(ctx, app, name, func(one *Segment, others int) error {
		if err := one.matches(c.Must); err != nil {
			return err
		}
		at := setting.After(one.UpdatedAt, s.now())
		if created = one.UpdatedAt.IsZero(); created {
			if others >= MaxSegments {
				return notification.BadField("name", "the app has %d segments; at most %d are allowed", others, MaxSegments)
			}
			one.CreatedAt = at
		}
		one.Where, one.Description, one.UpdatedAt = c.Where, c.Description, at
		set = *one
		return nil
	})
	if err != nil {
		return Segment{}, false, fmt.Errorf("set segment %.128s: %w", name, err)
	}
	return set, created, nil
}

// Check validates a segment.
func Check(name string, c Change) error {
	if err := CheckName("name", name); err != nil {
		return err
	}
	if c.Where == "" {
		return notification.BadField("where", `is required: an expression like city = "Oslo" and age >= 18`)
	}
	if _, err := audience.Parse(c.Where); err != nil {
		return notification.BadField("where", "%s", err)
	}
	if utf8.RuneCountInString(c.Description) > MaxDescription || !utf8.ValidString(c.Description) {
		return notification.BadField("description", "must be text of at most %d characters", MaxDescription)
	}
	return nil
}

// CheckName validates a segment's name.
func CheckName(field, name string) error { return notification.CheckName(field, name) }

// Get reads a segment.
func (s *Service) Get(ctx context.Context, app, name string) (Segment, error) {
	one, err := s.store.Find(ctx, app, name)
	if err == nil && one == nil {
		err = ErrUnknown
	}
	if err != nil {
		return Segment{}, fmt.Errorf("read segment %.128s: %w", name, err)
	}
	return *one, nil
}

// List returns a page of an app's segments, by name.
func (s *Service) List(ctx context.Context, app, after string, limit int) ([]Segment, error) {
	return s.store.Page(ctx, app, after, limit)
}

// Delete removes a segment. It fails with *UsedError if a campaign that has not begun uses it. Campaigns that have begun keep the
// expression with which they began.
func (s *Service) Delete(ctx context.Context, app, name string, must setting.Match) error {
	one, err := s.Get(ctx, app, name)
	if err != nil {
		return err
	}
	if err := one.matches(must); err != nil {
		return err
	}
	if s.user != nil {
		campaign, err := s.user(ctx, app, name)
		if err != nil {
			return fmt.Errorf("find out who uses segment %s: %w", name, err)
		}
		if campaign != "" {
			return &UsedError{name, campaign}
		}
	}
	found, err := s.store.Delete(ctx, app, name, func(one *Segment) error { return one.matches(must) })
	if err == nil && !found {
		err = ErrUnknown
	}
	if err != nil {
		return fmt.Errorf("delete segment %s: %w", name, err)
	}
	return nil
}

// Fill replaces the segment that an audience names by the segment's expression, which it returns. Errors name the invalid field as a part of
// field, which may be empty. An audience that names no segment stays as it is.
func (s *Service) Fill(ctx context.Context, app string, a *audience.Audience, field string) (where string, err error) {
	if err := a.Check(field); err != nil || a.Segment == "" {
		return "", err
	}
	at := func(name string) string {
		if field == "" {
			return name
		}
		return field + "." + name
	}
	one, err := s.store.Find(ctx, app, a.Segment)
	switch {
	case err != nil:
		return "", fmt.Errorf("read segment %s: %w", a.Segment, err)
	case one == nil:
		return "", notification.LapsedField(at("segment"), "the app has no segment %s: PUT /v1/segments/%s makes one", notification.Clip(a.Segment), notification.Clip(a.Segment))
	}
	in := a.Within(one.Where)
	if _, err := audience.Parse(in.Where); err != nil { // both are valid: together they are too long
		return "", notification.BadField(at("where"), "together with segment %s: %s", one.Name, err)
	}
	*a = in
	return one.Where, nil
}
