package admin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access"
)

func TestAPageActsOnlyInTheAppThatItShows(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	_, page := b.post("/ui/sign-in", url.Values{"key": {w.newKey("other", access.Admin)}})
	wants(t, page, `data-app="other"`)
	draft := url.Values{"title": {"x"}, "then": {"draft"}, "key": {"k"}}
	of := func(app string) url.Values {
		v := url.Values{"signed-in-to": {app}}
		for name, values := range draft {
			v[name] = values
		}
		return v
	}
	for name, c := range map[string]struct {
		form    url.Values
		headers []string
		status  int
	}{
		"posted by the browser": {of("shop"), nil, http.StatusConflict},
		"posted by a script":    {draft, []string{"HX-Request", "true", "Godwit-App", "shop"}, http.StatusConflict},
		"of operators":          {of("/"), nil, http.StatusConflict},
		"of nobody":             {of(hostile), nil, http.StatusConflict},
		"of this app":           {of("other"), nil, http.StatusOK},
		"without scripts":       {draft, nil, http.StatusOK},
	} {
		status, page := b.post("/ui/campaigns", c.form, c.headers...)
		if status != c.status || (status == http.StatusConflict) != strings.Contains(page, "Nothing was done.") {
			t.Errorf("%s: answered %d:\n%s", name, status, page)
		}
		checkHarmless(t, name, page)
	}
	list, err := w.store.List(t.Context(), "other", 10, 0)
	if err != nil || len(list) != 1 {
		t.Errorf("%d campaigns were made, %v", len(list), err)
	}
}
