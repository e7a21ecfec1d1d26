package godwit_test

import (
	"errors"
	"reflect"
	"testing"

	godwit "godwit.dev/godwit/clients/go"
)

func TestPreferencesOfARealServer(t *testing.T) {
	c := client(t, run(t, nil))
	said := godwit.Preferences{
		Categories: map[string]godwit.Choice{"promo": {Channels: []string{}}, "*": {Channels: []string{"fcm"}}, "rides": {}},
		QuietHours: &godwit.QuietHours{From: "22:00", To: "08:00"}, Timezone: "Europe/Oslo",
	}
	nothing := godwit.Preferences{Categories: map[string]godwit.Choice{}}
	is := func(want godwit.Preferences) {
		t.Helper()
		if got, err := c.Preferences(t.Context(), "ada@home"); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
	is(nothing)
	for _, p := range []godwit.Preferences{said, nothing} {
		if err := c.SetPreferences(t.Context(), "ada@home", p); err != nil {
			t.Fatal(err)
		}
		is(p)
	}
	var refused *godwit.Error
	if err := c.SetPreferences(t.Context(), "ada", godwit.Preferences{Timezone: "Mars"}); !errors.As(err, &refused) || refused.Field != "timezone" {
		t.Errorf("a time zone that is none: %v", err)
	}
}
