package template

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

const (
	// freshFor is how long a cached template is used: a change takes effect on every server within a second.
	freshFor = time.Second
	// maxCached limits the templates in memory: each has 32 KB with its variables at most, and mostly 1 KB.
	maxCached = 512
)

// Service stores apps' templates and fills them in.
type Service struct {
	store Store
	now   func() time.Time

	mu    sync.Mutex
	known map[key]read
}

type key struct{ app, name string }

type read struct {
	t    *Template // shared: nobody changes it
	uses uses
	at   time.Time
}

// New returns a Service; now is the store's clock.
func New(st Store, now func() time.Time) *Service {
	return &Service{store: st, now: now, known: make(map[key]read)}
}

// Set stores a template as new, or as the next revision.
func (s *Service) Set(ctx context.Context, app, name string, c Content, m Match) (set Template, created bool, err error) {
	if err := CheckName("template", name); err != nil {
		return set, false, err
	}
	if err := c.Check("content"); err != nil {
		return set, false, err
	}
	if c.Title == "" && c.Body == "" { // beside a sticker
		return set, false, notification.BadField("content.title", "is required, or content.body: notifications and other channels show no sticker")
	}
	now := s.now().Truncate(time.Millisecond).UTC()
	err = s.store.UpdateTemplate(ctx, app, name, func(t *Template, others int) error {
		if err := m.check(t); err != nil {
			return err
		}
		if created = t.Revision == 0; created {
			if others >= MaxTemplates {
				return notification.BadField("template", "the app has %d templates; at most %d are allowed", others, MaxTemplates)
			}
			t.CreatedAt = now
		}
		t.Content, t.UpdatedAt = c, now
		t.Revision++
		set = *t
		return nil
	})
	s.forget(app, name)
	if err != nil {
		return set, false, fmt.Errorf("set template %.128s: %w", name, err)
	}
	return set, created, nil
}

// Get reads a template.
func (s *Service) Get(ctx context.Context, app, name string) (*Template, error) {
	t, err := s.store.Template(ctx, app, name)
	if err != nil {
		return nil, fmt.Errorf("read template %.128s: %w", name, err)
	}
	return t, nil
}

// Versions returns the kept revisions of a template, the newest first.
func (s *Service) Versions(ctx context.Context, app, name string) ([]Template, error) {
	list, err := s.store.TemplateVersions(ctx, app, name)
	if err != nil {
		return nil, fmt.Errorf("read revisions of template %.128s: %w", name, err)
	}
	return list, nil
}

// List returns a page of an app's templates, by name.
func (s *Service) List(ctx context.Context, app, after string, limit int) ([]Template, error) {
	return s.store.Templates(ctx, app, after, limit)
}

// Delete removes a template. Messages made from it are not affected.
func (s *Service) Delete(ctx context.Context, app, name string, m Match) error {
	err := s.store.DeleteTemplate(ctx, app, name, m.check)
	s.forget(app, name)
	if err != nil {
		return fmt.Errorf("delete template %.128s: %w", name, err)
	}
	return nil
}

func (s *Service) forget(app, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key{app, name})
}

// Use returns a template to make a content from. The result is shared and must not be changed. If there is no such template, the error
// names field.
func (s *Service) Use(ctx context.Context, app, name, field string) (*Template, error) {
	r, err := s.use(ctx, app, name, field)
	return r.t, err
}

func (s *Service) use(ctx context.Context, app, name, field string) (read, error) {
	if err := CheckName(field, name); err != nil {
		return read{}, err
	}
	now, k := s.now(), key{app, name}
	s.mu.Lock()
	r, ok := s.known[k]
	s.mu.Unlock()
	if age := now.Sub(r.at); ok && age >= 0 && age < freshFor {
		return r, nil
	}
	t, err := s.store.Template(ctx, app, name)
	switch {
	case errors.Is(err, ErrUnknown):
		return read{}, notification.LapsedField(field, "the app has no template %s: PUT /v1/templates/%s makes one", notification.Clip(name), notification.Clip(name))
	case err != nil:
		return read{}, fmt.Errorf("read template %.128s: %w", name, err)
	}
	r = read{t, t.Content.uses(), now}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxCached {
		clear(s.known)
	}
	s.known[k] = r
	return r, nil
}
