package form

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/problem"
)

// FuzzPreferences checks that accepted preferences stay the same when they are shown and set again, and that errors name the mistake.
func FuzzPreferences(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"categories":{"promo":{"channels":[]},"*":{"channels":["fcm"]},"rides":{}}}`, `{"categories":null,"quiet_hours":null,"timezone":null}`,
		`{"quiet_hours":{"from":"22:00","to":"08:00"},"timezone":"Europe/Oslo"}`, `{"categories":{"a":{},"a":{}}}`, `{"categories":{"a":[]}}`, `[]`, `{"categories":{"":{}}}`,
		`{"categories":{"a":{"channels":null}}}`, `{"categories":{"a":{"channels":["live"]}}}`, `{"categories":{"\u0061":{"channels":[1]}}`, "{\"categories\":{\"\xff\":{}}}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := Preferences(body)
		if err != nil {
			var bad *notification.FieldError
			var other *problem.Problem
			if !errors.As(err, &bad) && !errors.As(err, &other) {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		shown, err := json.Marshal(ViewPreferences(&p))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Preferences(shown)
		if len(p.Categories) == 0 {
			p.Categories = again.Categories // none, said or not
		}
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%q is %+v; shown as %s it is %+v, %v", body, p, shown, again, err)
		}
	})
}
