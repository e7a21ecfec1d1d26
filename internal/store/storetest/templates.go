package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/appsql"
)

var templateCases = map[string]func(e *appEnv){
	"ATemplateIsKeptAsItWasMadeAndChanged": templateIsKept,
	"TemplatesOfAppsAreApart":              templatesApart,
	"TemplatesComeInPagesByName":           templatePages,
	"EarlierRevisionsOfTemplatesAreKept":   templateVersions,
}

func templateIsKept(e *appEnv) {
	ctx := e.Context()
	e.app("shop")
	made := template.Template{
		App: "shop", Name: "welcome", Revision: 3, CreatedAt: time.UnixMilli(1_700_000_000_123).UTC(), UpdatedAt: time.UnixMilli(1_700_000_000_456).UTC(),
		Content: template.Content{
			Content: push.Content{Title: "Hi {{name}}", Data: []byte(`{"a":"<é>"}`), Telegram: push.TelegramContent{Silent: true}}, Language: "en",
			Locales: map[string]template.Variant{"de": {Title: "Hallo", Telegram: &template.VariantTelegram{Buttons: [][]push.TelegramLink{{{Text: "a", URL: "https://a"}}}}}},
		},
	}
	if _, err := e.s.Template(ctx, "shop", "welcome"); !errors.Is(err, template.ErrUnknown) {
		e.Errorf("one that nobody made: %v", err)
	}
	e.ok(e.s.UpdateTemplate(ctx, "shop", "welcome", func(t *template.Template, others int) error {
		if !reflect.DeepEqual(*t, template.Template{App: "shop", Name: "welcome"}) || others != 0 {
			e.Errorf("a new template is %+v beside %d", t, others)
		}
		*t = made
		return nil
	}))
	e.s = e.reopen()
	e.ok(e.s.UpdateTemplate(ctx, "shop", "welcome", func(t *template.Template, others int) error {
		want := made
		want.Content.Data = t.Content.Data // the same JSON may have several spellings
		if !reflect.DeepEqual(*t, want) || others != 0 {
			e.Errorf("got %+v, want %+v", t, want)
		}
		t.Revision++
		t.Content = template.Content{Content: push.Content{Title: "Bye"}}
		return nil
	}))
	if err := e.s.UpdateTemplate(ctx, "shop", "welcome", func(t *template.Template, _ int) error { t.Revision = 9; return context.Canceled }); !errors.Is(err, context.Canceled) {
		e.Errorf("a change that failed: %v", err)
	}
	made.Revision, made.Content = 4, template.Content{Content: push.Content{Title: "Bye"}}
	if got, err := e.s.Template(ctx, "shop", "welcome"); err != nil || !reflect.DeepEqual(*got, made) {
		e.Errorf("got %+v, %v; want %+v", got, err, made)
	}
}

func (e *appEnv) template(app, name string) {
	e.Helper()
	e.ok(e.s.UpdateTemplate(e.Context(), app, name, func(t *template.Template, _ int) error { t.Revision++; return nil }))
}

func templatesApart(e *appEnv) {
	ctx := e.Context()
	for _, app := range []string{"a", "b"} {
		e.app(app)
		e.template(app, "x")
	}
	e.template("b", "y")
	any := func(*template.Template) error { return nil }
	never := func(*template.Template) error { return template.ErrRevision }
	e.fails(map[string]struct{ err, want error }{
		"template of no app":      {e.s.UpdateTemplate(ctx, "c", "x", func(*template.Template, int) error { return nil }), access.ErrUnknownApp},
		"another app's deleted":   {e.s.DeleteTemplate(ctx, "a", "y", any), template.ErrUnknown},
		"deletion that is barred": {e.s.DeleteTemplate(ctx, "b", "y", never), template.ErrRevision},
		"deletion":                {e.s.DeleteTemplate(ctx, "a", "x", any), nil},
	})
	if _, err := e.s.Template(ctx, "a", "x"); !errors.Is(err, template.ErrUnknown) {
		e.Errorf("a deleted one: %v", err)
	}
	others := 0
	e.ok(e.s.UpdateTemplate(ctx, "b", "x", func(_ *template.Template, n int) error { others = n; return nil }))
	if list, err := e.s.Templates(ctx, "b", "", 10); err != nil || len(list) != 2 || others != 1 {
		e.Errorf("of b %+v, %v; %d beside x", list, err, others)
	}
}

func templatePages(e *appEnv) {
	e.app("shop")
	want := []string{"A", "a", "b", "z.1", "z:1"}
	for _, i := range []int{3, 0, 4, 2, 1} {
		e.template("shop", want[i])
	}
	for _, size := range []int{1, 2, 5, 10} {
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			page, err := e.s.Templates(e.Context(), "shop", after, size)
			e.ok(err)
			for _, t := range page {
				got = append(got, t.Name)
			}
			if len(page) < size {
				break
			}
		}
		if !slices.Equal(got, want) {
			e.Errorf("in pages of %d: %v", size, got)
		}
	}
}

// twoTemplates: of several changes made for the same revision, one succeeds.
func twoTemplates(e *appEnv, stores [2]*appsql.Store) {
	e.ok(e.s.CreateApp(e.Context(), access.App{Name: "a"}))
	wrong := errors.New("another revision")
	made := [2]int{}
	atOnce(2, 20, func(caller, nth int) {
		err := stores[caller].UpdateTemplate(e.Context(), "a", "x", func(t *template.Template, _ int) error {
			if t.Revision != int64(nth) {
				return wrong
			}
			t.Revision++
			return nil
		})
		switch {
		case err == nil:
			made[caller]++
		case !errors.Is(err, wrong):
			e.Errorf("caller %d, %d: %v", caller, nth, err)
		}
	})
	for i, s := range stores {
		if t, err := s.Template(e.Context(), "a", "x"); err != nil || t.Revision != int64(made[0]+made[1]) {
			e.Errorf("store %d: %s", i, fmt.Sprintf("%+v, %v; %v changes were made", t, err, made))
		}
	}
}

func templateVersions(e *appEnv) {
	ctx := e.Context()
	for _, app := range []string{"a", "b"} {
		e.app(app)
	}
	write := func(app, title string) {
		e.Helper()
		e.ok(e.s.UpdateTemplate(ctx, app, "x", func(t *template.Template, _ int) error {
			t.Revision++
			t.Content, t.UpdatedAt = template.Content{Content: push.Content{Title: title}}, time.UnixMilli(1_700_000_000_000+t.Revision).UTC()
			return nil
		}))
	}
	kept := func(app, name string) (all []string) {
		e.Helper()
		list, err := e.s.TemplateVersions(ctx, app, name)
		e.ok(err)
		for _, t := range list {
			if t.App != app || t.Name != name || t.UpdatedAt.UnixMilli() != 1_700_000_000_000+t.Revision {
				e.Errorf("a revision is %+v", t)
			}
			all = append(all, fmt.Sprint(t.Revision, t.Content.Title))
		}
		return all
	}
	write("b", "other")
	for i := range template.MaxVersions + 2 {
		write("a", fmt.Sprint("t", i+1))
	}
	if err := e.s.UpdateTemplate(ctx, "a", "x", func(t *template.Template, _ int) error { t.Revision = 99; return context.Canceled }); !errors.Is(err, context.Canceled) {
		e.Errorf("a change that failed: %v", err)
	}
	e.s = e.reopen()
	last := template.MaxVersions + 2
	if got := kept("a", "x"); len(got) != template.MaxVersions || got[0] != fmt.Sprintf("%dt%d", last, last) || got[len(got)-1] != "3t3" {
		e.Errorf("kept are %v", got)
	}
	if got := kept("a", "y"); len(got) != 0 {
		e.Errorf("of no template are kept %v", got)
	}
	e.ok(e.s.DeleteTemplate(ctx, "a", "x", func(*template.Template) error { return nil }))
	if got := kept("a", "x"); len(got) != 0 {
		e.Errorf("of a deleted template are kept %v", got)
	}
	write("a", "anew")
	if a, b := kept("a", "x"), kept("b", "x"); !slices.Equal(a, []string{"1anew"}) || !slices.Equal(b, []string{"1other"}) {
		e.Errorf("kept are %v, and of another app %v", a, b)
	}
	e.ok(e.s.DeleteApp(ctx, "b", nil))
	if got := kept("b", "x"); len(got) != 0 {
		e.Errorf("of a deleted app are kept %v", got)
	}
}
