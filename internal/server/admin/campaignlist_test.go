package admin_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"testing"
)

// listedNames returns the names of the campaigns on a page, in their order.
func listedNames(page string) (names []string) {
	for _, found := range regexp.MustCompile(`data-label="Name"><a [^>]*>([^<]*)</a>`).FindAllStringSubmatch(page, -1) {
		names = append(names, found[1])
	}
	return names
}

func TestCampaignsAreSearchedAndSorted(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	for i, name := range []string{"Storm", "autumn tides", "Spring Tides"} {
		id := b.create(url.Values{"name": {name}, "title": {"x"}, "channel": {"webhook"}, "tags_any": {"nobody"}, "key": {name}})
		if i == 1 {
			b.post("/ui/campaigns/"+id+"/start", nil)
		}
	}
	for query, want := range map[string][]string{
		"": {"Spring Tides", "autumn tides", "Storm"}, "q=TIDES": {"Spring Tides", "autumn tides"}, "sort=name": {"autumn tides", "Spring Tides", "Storm"},
		"state=draft": {"Spring Tides", "Storm"}, "sort=sent": {"autumn tides", "Spring Tides", "Storm"}, "q=nothing": nil, "sort=clicks&q=s": {"Spring Tides", "autumn tides", "Storm"},
	} {
		status, page := b.get("/ui/campaigns?" + query)
		if got := listedNames(page); status != http.StatusOK || !slices.Equal(got, want) {
			t.Errorf("%s: %d %q, want %q", query, status, got, want)
		}
	}
	for _, query := range []string{"sort=colour", "state=asleep", "sort=" + url.QueryEscape(hostile)} {
		status, page := b.get("/ui/campaigns?" + query)
		if checkHarmless(t, query, page); status != http.StatusBadRequest {
			t.Errorf("%s: %d", query, status)
		}
	}
	_, page := b.get("/ui/campaigns?q=" + url.QueryEscape(hostile))
	checkHarmless(t, "search", page)
	wants(t, page, "No campaign is like this")
}

func TestWhatCannotBeCountedIsNotSaidToBeNone(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	for _, c := range []struct {
		name string
		form url.Values
		want string
	}{
		{"a bot without links", url.Values{"channel": {"telegram"}, "track": {"on"}}, "not counted"},
		{"a bot with a link", url.Values{"channel": {"telegram"}, "track": {"on"}, "url": {"https://example.org"}}, `<data value="0">0</data>`},
		{"browsers", url.Values{"channel": {"webpush"}, "track": {"on"}}, `<data value="0">0</data>`},
		{"browsers untracked", url.Values{"channel": {"webpush"}}, "not counted"},
	} {
		c.form.Set("title", "x")
		c.form.Set("name", c.name)
		c.form.Set("key", c.name)
		b.create(c.form)
		_, page := b.get("/ui/campaigns?q=" + url.QueryEscape(c.name))
		found := regexp.MustCompile(`(?s)data-label="Clicks">(.*?)</td>`).FindStringSubmatch(page)
		if found == nil || !regexp.MustCompile(regexp.QuoteMeta(c.want)).MatchString(found[1]) {
			t.Errorf("%s: clicks are %q, want %q", c.name, found, c.want)
		}
	}
}
