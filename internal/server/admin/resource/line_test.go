package resource

import "testing"

func TestALineIsMarkedByWhatFails(t *testing.T) {
	for want, one := range map[string]Line{
		"failed":    {Error: "no answer"},
		"paused":    {Error: "no answer", Paused: true},
		"completed": {},
	} {
		if got := one.classed().Class; got != want {
			t.Errorf("%+v is marked %q, want %q", one, got, want)
		}
	}
}
