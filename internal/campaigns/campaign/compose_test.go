package campaign

import (
	"context"
	"testing"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// shelf is a template store that holds one template of the app shop.
type shelf struct{ t template.Template }

func (s *shelf) Use(_ context.Context, app, name, field string) (*template.Template, error) {
	if app != "shop" || name != s.t.Name {
		return nil, notification.BadField(field, "there is none")
	}
	return &s.t, nil
}

func TestACampaignKeepsTheRevisionThatItWasMadeOf(t *testing.T) {
	kept := &shelf{template.Template{Name: "welcome", Revision: 3, Content: Content{Content: push.Content{Title: "Hi {{name}}, {{plan}}"}}}}
	s := &Service{cfg: Config{Templates: kept}}
	spec := Spec{Template: "welcome", Variables: template.Variables{"plan": "pro"}}
	if err := s.compose(t.Context(), "shop", &spec); err != nil || spec.TemplateRevision != 3 || spec.Content.Title != "Hi {{name}}, {{plan}}" {
		t.Fatalf("%+v, %v", spec, err)
	}
	kept.t.Revision, kept.t.Content.Title = 4, "Something else"
	if err := s.compose(t.Context(), "shop", &spec); err != nil || spec.TemplateRevision != 3 || spec.Content.Title != "Hi {{name}}, {{plan}}" {
		t.Errorf("composed once more: %+v, %v", spec, err)
	}
	ada := Person{Attributes: audience.Attributes{"name": audience.Text("Ada"), "plan": audience.Text("free")}}
	if got := spec.Render(ada, push.WebPush).Title; got != "Hi Ada, pro" {
		t.Errorf("rendered as %q: what is given with the campaign goes before attributes", got)
	}
}

func TestATemplateThatCannotBeTakenIsRefusedByItsField(t *testing.T) {
	s := &Service{cfg: Config{Templates: &shelf{template.Template{Name: "welcome", Revision: 3}}}}
	for field, spec := range map[string]*Spec{
		"content":  {Template: "welcome", Content: Content{Content: push.Content{Title: "x"}}},
		"template": {Template: "other"},
	} {
		wantField(t, s.compose(t.Context(), "shop", spec), field)
	}
	wantField(t, s.compose(t.Context(), "red", &Spec{Template: "welcome"}), "template")
	wantField(t, new(Service).compose(t.Context(), "shop", &Spec{Template: "welcome"}), "template")
}
