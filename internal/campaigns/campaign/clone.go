package campaign

import (
	"cmp"
	"context"
	"strings"
	"time"
)

// Clone makes a draft with a campaign's settings. The draft has the message as it was sent, without a correction, and tries its
// variants anew. It has no times: those of
// the original lie in the past, or would send both at once. An empty name becomes "Copy of" and the original's. idem and body are those of
// Create.
func (s *Service) Clone(ctx context.Context, app, id, name, idem string, body [32]byte) (*View, error) {
	c, err := s.store.Get(ctx, app, id)
	if err != nil {
		return nil, err
	}
	spec := c.Spec
	spec.Correction, spec.Local, spec.Expires, spec.TriedAt, spec.Decision = nil, nil, time.Time{}, time.Time{}, nil
	if spec.Name = name; name == "" {
		spec.Name = copyOf(&c.Spec)
	}
	return s.Create(ctx, app, spec, time.Time{}, idem, body)
}

// copyOf names a copy after the name of a campaign, or what its message says first.
func copyOf(s *Spec) string {
	const prefix = "Copy of "
	name := strings.TrimSpace(cmp.Or(s.Name, s.Content.Title, s.Content.Body))
	if r := []rune(name); len(r) > MaxName-len(prefix) {
		name = string(r[:MaxName-len(prefix)-1]) + "…"
	}
	return prefix + strings.TrimPrefix(name, prefix)
}
