package operator

import (
	"encoding/json"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/feeds/source"
)

func TestWhyASourceFailsStandsBeforeWhatElseIsKnown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ fails, detail, want string }{
		{"rights do not suffice", "one waits", "rights do not suffice; one waits"},
		{"rights do not suffice", "", "rights do not suffice"},
		{"", "one waits", "one waits"},
	} {
		v := viewSource(&source.Info{Source: source.Source{Name: "s"}, Error: c.fails, Detail: c.detail})
		text, err := json.Marshal(v)
		if err != nil || !strings.Contains(string(text), `"detail":"`+c.want+`"`) {
			t.Errorf("%+v: %s, %v", c, text, err)
		}
	}
}
