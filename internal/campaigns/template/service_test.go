package template

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// shelf keeps templates in memory.
type shelf struct {
	kept  map[key]Template
	reads int
}

func (s *shelf) Template(_ context.Context, app, name string) (*Template, error) {
	s.reads++
	t, ok := s.kept[key{app, name}]
	if !ok {
		return nil, ErrUnknown
	}
	return &t, nil
}

func (s *shelf) Templates(context.Context, string, string, int) ([]Template, error) { return nil, nil }

func (s *shelf) TemplateVersions(context.Context, string, string) ([]Template, error) {
	return nil, nil
}

func (s *shelf) UpdateTemplate(_ context.Context, app, name string, change func(*Template, int) error) error {
	t, ok := s.kept[key{app, name}]
	if !ok {
		t = Template{App: app, Name: name}
	}
	err := change(&t, len(s.kept))
	if err == nil {
		s.kept[key{app, name}] = t
	}
	return err
}

func (s *shelf) DeleteTemplate(_ context.Context, app, name string, check func(*Template) error) error {
	t, ok := s.kept[key{app, name}]
	if !ok {
		return ErrUnknown
	}
	err := check(&t)
	if err == nil {
		delete(s.kept, key{app, name})
	}
	return err
}

type world struct {
	*testing.T
	s     *Service
	store *shelf
	now   time.Time
}

func begin(t *testing.T) *world {
	w := &world{T: t, store: &shelf{kept: map[key]Template{}}, now: time.Unix(1_790_000_000, 0)}
	w.s = New(w.store, func() time.Time { return w.now })
	return w
}

func (w *world) set(name, content string) Template {
	w.Helper()
	var c Content
	if err := json.Unmarshal([]byte(content), &c); err != nil {
		w.Fatal(err)
	}
	t, _, err := w.s.Set(w.Context(), "shop", name, c, Match{})
	if err != nil {
		w.Fatal(err)
	}
	return t
}

const welcome = `{"language":"en","title":"Hi {{name|friend}}","body":"Your plan is {{plan}}","url":"https://x.example/{{plan}}","data":{"a":1},"category":"news",
	"telegram":{"parse_mode":"HTML","buttons":[[{"text":"Open","url":"https://x.example/en"}]]},"webpush":{"actions":[{"action":"o","title":"Open"}]},
	"locales":{"de":{"title":"Hallo {{name|du}}","body":"Ihr Tarif ist {{plan}}","telegram":{"buttons":[[{"text":"Auf","url":"https://x.example/de"}]]},"webpush":{"actions":[{"action":"o","title":"Auf"}]}}}}`

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var bad *notification.FieldError
	if !errors.As(err, &bad) || bad.Field != field {
		t.Errorf("%v; want an error of %s", err, field)
	}
}

func TestADraftGetsWhatItsTemplateSays(t *testing.T) {
	w := begin(t)
	w.set("welcome", welcome)
	d := &notification.Draft{To: []string{"ada"}, Template: "welcome", Variables: Variables{"plan": "<pro>"}, Locale: "de-CH", Escalate: []notification.Step{{Channel: "live"}, {Channel: "telegram"}}}
	if err := w.s.Fill(t.Context(), "shop", d); err != nil {
		t.Fatal(err)
	}
	c := &d.Content
	if c.Title != "Hallo du" || c.Body != "Ihr Tarif ist <pro>" || c.Category != "news" || string(c.Data) != `{"a":1,"url":"https://x.example/%3Cpro%3E"}` {
		t.Errorf("%+v, data %s", c, c.Data)
	}
	m, err := ReadMessage(c.Push)
	if err != nil {
		t.Fatal(err)
	}
	for locale, want := range map[string][3]string{
		"":      {"Hallo du", "Ihr Tarif ist &lt;pro&gt;", "Auf"},
		"en-GB": {"Hi friend", "Your plan is &lt;pro&gt;", "Open"},
		"de":    {"Hallo du", "Ihr Tarif ist &lt;pro&gt;", "Auf"},
		"fr":    {"Hi friend", "Your plan is &lt;pro&gt;", "Open"},
	} {
		got := m.Render("ada", locale, push.Telegram)
		if got.Title != want[0] || got.Body != want[1] || got.Telegram.Buttons[0][0].Text != want[2] || got.WebPush.Actions[0].Title != want[2] || string(got.Data) != `{"a":1}` {
			t.Errorf("%q: %+v, data %s", locale, got, got.Data)
		}
	}
}

func TestWithoutStepsNothingIsKeptForPushChannels(t *testing.T) {
	w := begin(t)
	w.set("welcome", welcome)
	d := &notification.Draft{Template: "welcome", Variables: Variables{"plan": "pro"}, Escalate: []notification.Step{{Channel: "live"}}}
	if err := w.s.Fill(t.Context(), "shop", d); err != nil || d.Content.Push != nil {
		t.Errorf("%v, %s", err, d.Content.Push)
	}
}

func TestAPublishersOwnDataTakesThePlaceOfTheTemplates(t *testing.T) {
	w := begin(t)
	w.set("welcome", welcome)
	d := &notification.Draft{Template: "welcome", Variables: Variables{"plan": "pro"}, Escalate: []notification.Step{{Channel: "fcm"}}}
	d.Content.Data = []byte(`{"ride":7}`)
	if err := w.s.Fill(t.Context(), "shop", d); err != nil || string(d.Content.Data) != `{"ride":7}` {
		t.Fatalf("%v, %s", err, d.Content.Data)
	}
	if m, err := ReadMessage(d.Content.Push); err != nil || !m.OwnData || m.Render("", "de", push.FCM).Data != nil {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestInvalidTemplateNamesItsField(t *testing.T) {
	w := begin(t)
	w.set("welcome", welcome)
	w.set("long", `{"title":"`+strings.Repeat("{{a}}", 100)+`"}`)
	for field, d := range map[string]*notification.Draft{
		"template":       {Template: "other"},
		"variables.plan": {Template: "welcome", Variables: Variables{"name": "Ada"}},
		"variables":      {Template: "long", Variables: Variables{"a": strings.Repeat("x", 4000)}},
		"variables.b":    {Template: "long", Variables: Variables{"b": strings.Repeat("x", 4097)}},
		"locale":         {Template: "welcome", Locale: "de_CH"},
		"title":          {Template: "welcome", Content: notification.Content{Title: "x"}},
	} {
		wantField(t, w.s.Fill(t.Context(), "shop", d), field)
	}
	sticker := Content{Content: push.Content{Telegram: push.TelegramContent{Sticker: "f"}}}
	_, _, err := w.s.Set(t.Context(), "shop", "sticker", sticker, Match{})
	wantField(t, err, "content.title")
	wantField(t, w.s.Fill(t.Context(), "other", &notification.Draft{Template: "welcome"}), "template")
}

func TestOnePublishIsKnownAgainWhateverItsTemplateSaysNow(t *testing.T) {
	w := begin(t)
	fill := func(change func(*notification.Draft)) string {
		t.Helper()
		d := &notification.Draft{Template: "welcome", Variables: Variables{"plan": "pro", "name": "Ada"}, Locale: "de"}
		change(d)
		if err := w.s.Fill(t.Context(), "shop", d); err != nil {
			t.Fatal(err)
		}
		return d.Content.Key
	}
	same := func(*notification.Draft) {}
	w.set("welcome", welcome)
	w.set("other", welcome)
	first := fill(same)
	w.set("welcome", `{"title":"Something else"}`)
	if fill(same) != first {
		t.Error("the same publish is another one since its template has changed")
	}
	for what, change := range map[string]func(*notification.Draft){
		"template": func(d *notification.Draft) { d.Template = "other" },
		"value":    func(d *notification.Draft) { d.Variables = Variables{"plan": "free", "name": "Ada"} },
		"language": func(d *notification.Draft) { d.Locale = "en" },
		"data":     func(d *notification.Draft) { d.Content.Data = []byte("1") },
	} {
		if fill(change) == first {
			t.Errorf("another %s is no other publish", what)
		}
	}
}

func TestRevisionsCountAndGuardAgainstLostUpdates(t *testing.T) {
	w := begin(t)
	var c Content
	c.Title = "x"
	set := func(m Match) (int64, error) {
		got, _, err := w.s.Set(t.Context(), "shop", "a", c, m)
		return got.Revision, err
	}
	for i, step := range []struct {
		m    Match
		want int64 // 0: refused
	}{{Match{There: true}, 0}, {Match{Revision: 1}, 0}, {Match{New: true}, 1}, {Match{New: true}, 0}, {Match{Revision: 1}, 2}, {Match{Revision: 1}, 0}, {Match{There: true}, 3}, {Match{}, 4}} {
		if n, err := set(step.m); n != step.want || (err != nil) != (step.want == 0) || err != nil && !errors.Is(err, ErrRevision) {
			t.Errorf("step %d: revision %d, %v; want %d", i, n, err, step.want)
		}
	}
	if err := w.s.Delete(t.Context(), "shop", "a", Match{Revision: 3}); !errors.Is(err, ErrRevision) {
		t.Errorf("another revision was deleted: %v", err)
	}
	if err := w.s.Delete(t.Context(), "shop", "a", Match{Revision: 4}); err != nil {
		t.Error(err)
	}
}

func TestAnAppHasSoManyTemplatesAndNoMore(t *testing.T) {
	w := begin(t)
	for i := range MaxTemplates {
		w.store.kept[key{"shop", fmt.Sprint(i)}] = Template{Revision: 1}
	}
	_, _, err := w.s.Set(t.Context(), "shop", "new", Content{Content: push.Content{Title: "x"}}, Match{})
	wantField(t, err, "template")
}

func TestTemplateIsCachedForASecondExceptOwnChanges(t *testing.T) {
	w := begin(t)
	title := func() string {
		t.Helper()
		got, err := w.s.Use(t.Context(), "shop", "a", "template")
		if err != nil {
			t.Fatal(err)
		}
		return got.Content.Title
	}
	w.set("a", `{"title":"1"}`)
	for range 2 {
		if got := title(); got != "1" || w.store.reads != 1 {
			t.Errorf("%s, read %d times", got, w.store.reads)
		}
	}
	w.set("a", `{"title":"2"}`)
	if got := title(); got != "2" {
		t.Errorf("%s after a change", got)
	}
	w.store.kept[key{"shop", "a"}] = Template{Content: Content{Content: push.Content{Title: "3"}}} // another server's
	if w.now = w.now.Add(time.Second); title() != "3" {
		t.Error("another server's change is not seen")
	}
}

func TestVariablesAreTextsNumbersAndBooleans(t *testing.T) {
	var v Variables
	if err := json.Unmarshal([]byte(`{"a":"x","b": 2.50,"c":true}`), &v); err != nil || v["a"] != "x" || v["b"] != "2.50" || v["c"] != "true" {
		t.Errorf("%v, %v", v, err)
	}
	for _, bad := range []string{`[]`, `{"a":null}`, `{"a":{}}`, `{"a":[1]}`} {
		if err := json.Unmarshal([]byte(bad), &v); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	many := Variables{}
	for i := range MaxVariables + 1 {
		many[fmt.Sprint("v", i)] = ""
	}
	big := Variables{}
	for i := range 5 {
		big[fmt.Sprint("v", i)] = strings.Repeat("x", 4000)
	}
	for _, bad := range []Variables{many, big, {"a b": ""}} {
		wantField(t, bad.Check("variables"), "variables")
	}
}

// FuzzRender: any valid content can be rendered for everybody, and a variable's value is never parsed for variables.
func FuzzRender(f *testing.F) {
	f.Add([]byte(welcome), "plan", "{{name}}", "de-CH")
	f.Add([]byte(`{"title":"{{a|{{b}}","locales":{"fr":{"title":"{{b}}"}}}`), "b", "}}", "fr_CA")
	f.Fuzz(func(t *testing.T, says []byte, name, value, locale string) {
		var c Content
		given := Variables{name: value}
		if json.Unmarshal(says, &c) != nil || c.Check("content") != nil || given.Check("variables") != nil || c.CheckFilled("variables", given) != nil {
			return
		}
		before, _ := json.Marshal(c)
		for _, ch := range []push.Channel{push.Telegram, push.WebPush} {
			got := c.Render(Person{Locale: locale, Variables: given}, ch, "")
			if c.Title == "{{"+name+"}}" && len(c.Locales) == 0 && ch == push.WebPush && got.Title != value {
				t.Errorf("%q is rendered as %q", value, got.Title)
			}
			if _, err := json.Marshal(got); err != nil {
				t.Error(err)
			}
		}
		if after, _ := json.Marshal(c); !bytes.Equal(before, after) {
			t.Errorf("rendering changed the content from %s to %s", before, after)
		}
		if uses := c.uses(); uses.missing(given) == "" {
			for _, v := range c.Variables() {
				if v.Required && v.Name != name {
					t.Errorf("%s is missing", v.Name)
				}
			}
		}
	})
}
