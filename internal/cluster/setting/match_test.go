package setting_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
)

func TestMatchTakesTheRevisionThatItNames(t *testing.T) {
	for name, c := range map[string]struct {
		must setting.Match
		now  string
		want string // in the error; empty: none
	}{
		"any of none":       {setting.Match{}, "", ""},
		"any of some":       {setting.Match{}, "a", ""},
		"the same":          {setting.Exactly("a"), "a", ""},
		"another":           {setting.Exactly("a"), "b", "somebody has changed hook billing meanwhile"},
		"one that is gone":  {setting.Exactly("a"), "", "does not exist"},
		"a new one":         {setting.Exactly(""), "", ""},
		"a new one that is": {setting.Exactly(""), "a", "hook billing exists already"},
	} {
		err := c.must.Check("hook billing", c.now)
		var changed *setting.ChangedError
		if (err == nil) != (c.want == "") || err != nil && (!errors.As(err, &changed) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEachChangeHasAnotherRevision(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	if setting.RevisionAt(time.Time{}) != "" {
		t.Error("what was never set has a revision")
	}
	for _, now := range []time.Time{at, at.Add(time.Microsecond), at.Add(-time.Hour), at.Add(time.Hour)} {
		if next := setting.After(at, now); !next.After(at) || setting.RevisionAt(next) == setting.RevisionAt(at) {
			t.Errorf("the change at %s has the time %s", now, next)
		}
	}
	if setting.RevisionOf(map[string]int{"a": 1}) == setting.RevisionOf(map[string]int{"a": 2}) {
		t.Error("two contents have one revision")
	}
}
