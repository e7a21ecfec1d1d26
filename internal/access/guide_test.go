package access_test

import (
	"maps"
	"testing"

	"godwit.dev/godwit/internal/access"
)

func TestAGuidesStateBelongsToItsApp(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop", "other")
	set := func(name string, state access.GuideState) {
		t.Helper()
		if err := w.SetGuide(t.Context(), "shop", name, state); err != nil {
			t.Fatal(err)
		}
	}
	tag := func() string {
		t.Helper()
		app, err := w.App("shop")
		if err != nil {
			t.Fatal(err)
		}
		return app.Tag()
	}
	before := tag()
	set("browsers", access.GuideTested)
	set("bot", access.GuideAway)
	set("bot", "")
	if got := w.Guides("shop"); !maps.Equal(got, map[string]access.GuideState{"browsers": access.GuideTested}) {
		t.Errorf("app shop has %v", got)
	}
	if got := w.Guides("other"); len(got) > 0 {
		t.Errorf("app other has %v", got)
	}
	if tag() != before {
		t.Error("the state of a guide counts as a change of the app's settings")
	}
	wantErr(t, w.SetGuide(t.Context(), "nobody", "bot", access.GuideAway), access.ErrUnknownApp)
}
