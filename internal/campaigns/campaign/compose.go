package campaign

import (
	"context"
	"reflect"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
)

// Templates returns a template of an app; errors name the field that names the template.
type Templates interface {
	Use(ctx context.Context, app, name, field string) (*template.Template, error)
}

// compose copies the current contents of a spec's templates into the spec, unless that was done before, and the current expression of its
// segment.
func (s *Service) compose(ctx context.Context, app string, spec *Spec) error {
	if spec.Variants != nil {
		return s.composeVariants(ctx, app, spec)
	}
	return s.composeOne(ctx, app, spec)
}

// composeOne does so with the campaign's own message.
func (s *Service) composeOne(ctx context.Context, app string, spec *Spec) error {
	if spec.Template != "" && spec.TemplateRevision == 0 {
		if !reflect.ValueOf(spec.Content).IsZero() {
			return notification.BadField("content", "is what the template says; leave it out, or the template")
		}
		if s.cfg.Templates == nil {
			return notification.BadField("template", "there are no templates here")
		}
		t, err := s.cfg.Templates.Use(ctx, app, spec.Template, "template")
		if err != nil {
			return err
		}
		spec.Content, spec.TemplateRevision = t.Content, t.Revision
	}
	if err := s.fill(ctx, app, spec); err != nil {
		return err
	}
	return spec.Content.CheckFilled("variables", spec.Variables)
}
