package admin

import (
	"testing"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"godwit.dev/godwit/internal/server/admin/words"
)

func TestArgumentsOfTextsWithElementsAreEscaped(t *testing.T) {
	const hostile = `<img src=x onerror=alert(1)>"`
	const harmless = `&lt;img src=x onerror=alert(1)&gt;&#34;`
	if got := marked(words.English, "The key <code>%s</code> works as before.", []any{hostile}); string(got) != "The key <code>"+harmless+"</code> works as before." {
		t.Errorf("%s", got)
	}
	// An element among the arguments makes the whole HTML: the text and the other arguments are escaped.
	if got := said(words.English, "came <b>%[1]s</b> %[2]s", []any{hostile, template.HTML("<time>now</time>")}); got != template.HTML("came &lt;b&gt;"+harmless+"&lt;/b&gt; <time>now</time>") {
		t.Errorf("%s", got)
	}
	if got := said(words.English, "Delete %s", []any{hostile}); got != "Delete "+hostile { // text, which the template escapes
		t.Errorf("%v", got)
	}
}

func TestTranslationsThatDifferWhereTheyMustNotAreFound(t *testing.T) {
	for _, c := range []struct {
		one, many, said string
		form            int
		wrong           bool
	}{
		{"%s of %s", "", "%[2]s: %[1]s", 0, false},
		{"%[1]s, role %[2]s", "", "%[1]s, rola %[2]", 0, true}, // a place without its letter swallows what follows
		{"Thanks, <b>%[1]s</b>", "", "<b>%[1]</b>, danke", 0, true},
		{"It is changed.", "", "%s ist geändert.", 0, true},
		{"Delete %s", "", "Löschen", 0, true},
		{"%s day", "%s days", "ein Tag", 0, false}, // one thing may be said without its number
		{"%s day", "%s days", "viele Tage", 1, true},
		{"%s day", "%s days", "%d Tage", 1, true},
		{"<b>Start</b>", "", "<b>Start", 0, true},
		{"<b>Start</b>", "", `<b onclick="x">Start</b>`, 0, true},
		{"Start", "", "Start ", 0, true},
		{", and ", "", ", und ", 0, false},
		{"%s %%", "", "%s %%", 0, false},
	} {
		if all := unlike(&used{one: c.one, many: c.many}, c.said, c.form); (len(all) > 0) != c.wrong {
			t.Errorf("%q for %q: %q", c.said, c.one, all)
		}
	}
}
