package template

import (
	"strings"
	"testing"

	"godwit.dev/godwit/internal/sending/push"
)

func TestTheNearestLanguageIsUsed(t *testing.T) {
	for _, c := range []struct{ locale, base, have, want string }{
		{"zh-TW", "en", "zh zh-Hant", "zh-Hant"},
		{"zh-HK", "", "zh-Hans zh-TW", "zh-TW"},
		{"zh-MO", "", "zh-CN zh-TW", "zh-TW"},
		{"zh-SG", "", "zh-CN zh-TW", "zh-CN"},
		{"zh-CN", "", "zh-Hant zh-Hans", "zh-Hans"},
		{"zh_Hant_HK", "", "zh zh-Hant", "zh-Hant"},
		{"zh-TW", "en", "zh", "zh"}, // most readers prefer the other script of their language to a foreign language
		{"yue-HK", "en", "zh-Hans zh-Hant", "zh-Hant"},
		{"zh-Hant-HK", "en", "zh-CN zh-TW", "zh-TW"},
		{"zh-Hant-HK", "", "zh-Hans zh-HK zh-TW", "zh-HK"},
		{"zh-Hant", "", "zh zh-HK", "zh-HK"},
		{"cmn", "", "zh", "zh"},
		{"iw", "", "he", "he"},
		{"he-IL", "", "iw", "iw"},
		{"in", "", "id", "id"},
		{"ji", "", "yi", "yi"},
		{"no", "", "nb", "nb"},
		{"nb-NO", "", "no", "no"},
		{"nn-NO", "en", "nb", "nb"},
		{"tl", "", "fil", "fil"},
		{"fil-PH", "", "tl", "tl"},
		{"mo", "", "ro", "ro"},
		{"sr-Latn-RS", "", "sr sr-Latn", "sr-Latn"},
		{"sh", "", "sr sr-Latn", "sr-Latn"},
		{"sr-ME", "", "sr sr-Latn", "sr-Latn"},
		{"sr-Cyrl", "", "sr-Latn sr", "sr"},
		{"sr-Cyrl-BA", "en", "sr-Latn sr-Cyrl", "sr-Cyrl"},
		{"sr", "en", "sr-Latn sr-Cyrl", "sr-Cyrl"},
		{"sr-Cyrl", "en", "sr-Latn", "sr-Latn"}, // its readers read both
		{"mo-MD", "en", "ro-RO", "ro-RO"},
		{"ro-MD", "en", "mo", "mo"},
		{"in-ID", "en", "id", "id"},
		{"id-ID", "en", "in", "in"},
		{"iw-IL", "ar", "he", "he"},
		{"pt-PT", "", "pt pt-PT", "pt-PT"},
		{"pt-AO", "", "pt-BR pt-PT", "pt-PT"},
		{"pt", "", "pt-BR pt-PT", "pt-BR"},
		{"en-AU", "fr", "en en-GB", "en-GB"},
		{"en-US", "fr", "en-GB en", "en"},
		{"es-MX", "", "es es-419", "es-419"},
		{"de-CH", "", "de", "de"},
		{"fr-CA-x-old", "", "fr fr-CA", "fr-CA"},
		{"en-US-POSIX", "", "en", "en"},
		{"xx-AA", "", "xx", "xx"},
		{"x-pirate", "", "en x-pirate", "x-pirate"},
		// The content's own texts.
		{"en-GB", "en", "en-US fr", ""},
		{"zh-TW", "zh-Hant", "zh-Hans en", ""},
		{"de", "en", "fr", ""},
		{"ku", "en", "tr", ""},
		{"be", "en", "ru", ""},
		{"uk", "en", "ru", ""},
		{"eu", "", "es", ""},
		{"az-Cyrl", "en", "az", ""}, // in letters that the reader may not know
		{"hi-Latn", "en", "hi", ""},
		{"", "", "de", ""},
		{"@", "", "de", ""},
	} {
		content := Content{Content: push.Content{Title: "base"}, Language: c.base, Locales: map[string]Variant{}}
		for name := range strings.FieldsSeq(c.have) {
			content.Locales[name] = Variant{Title: name}
		}
		want := c.want
		if want == "" {
			want = "base"
		}
		for range 2 { // found and remembered
			if got := content.Render(Person{Locale: c.locale}, push.WebPush, "").Title; got != want {
				t.Errorf("%q in %s with %q: %s, want %s", c.locale, c.base, c.have, got, want)
			}
		}
	}
}
