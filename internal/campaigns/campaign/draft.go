package campaign

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
)

// Keep stores a draft: a new one, or in the place of the campaign with this id, which must not have begun. Other than with Create and
// Revise, it may still lack its message, and it stays a draft with a time: it is scheduled for that when somebody starts it. idem and body
// are those of Create.
func (s *Service) Keep(ctx context.Context, app, id string, spec Spec, sendAt time.Time, must setting.Match, idem string, body [32]byte) (*View, error) {
	c, err := s.defined(ctx, app, spec, sendAt, (*Spec).CheckDraft)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return s.insert(ctx, c, idem, body)
	}
	return s.replace(ctx, id, c, must)
}

// Unwritten reports whether the message says nothing yet.
func (s *Spec) Unwritten() bool {
	c := &s.Content
	return c.Title == "" && c.Body == "" && c.Telegram.Sticker == "" && !s.Tries()
}

// CheckDraft checks a definition that may still lack its message.
func (s *Spec) CheckDraft(now, sendAt time.Time) error {
	if s.Unwritten() {
		written := *s
		written.Content.Title = "not written yet"
		s = &written
	}
	return s.Check(now, sendAt)
}
