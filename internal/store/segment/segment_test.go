package segment

import "testing"

func TestPrefixesEndWhereTheNextTextBegins(t *testing.T) {
	for s, want := range map[string]string{"a": "b", "az": "a{", "a\uD7FF": "a\uE000", "a\U0010FFFF": "b", "\U0010FFFF": ""} {
		if got, ok := after(s); got != want || ok != (want != "") {
			t.Errorf("after %q comes %q, want %q", s, got, want)
		}
	}
}
