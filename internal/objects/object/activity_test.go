package object_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

func TestAPayloadIsTheStateWithoutWhatSaysHowItIsShown(t *testing.T) {
	state, a, err := object.ParseActivity([]byte(`{"eta":4,"godwit_activity":{"alert":{"title":"T","body":"B","sound":"s"},"priority":"low","stale_after":"5m","dismiss_after":60,"relevance_score":0.5,"end":true}}`))
	if err != nil || string(state) != `{"eta":4}` {
		t.Fatalf("state %s, %v", state, err)
	}
	if *a.Alert != (object.Alert{Title: "T", Body: "B", Sound: "s"}) || a.Priority != "low" || a.StaleAfter != 5*time.Minute || a.DismissAfter != time.Minute || *a.Relevance != 0.5 || !a.End {
		t.Errorf("shown as %+v", a)
	}
	if state, a, err = object.ParseActivity([]byte(`{"eta":4}`)); err != nil || string(state) != `{"eta":4}` || a.End || a.DismissAfter >= 0 {
		t.Errorf("state %s as %+v, %v", state, a, err)
	}
}

func TestHowAVersionIsShownIsChecked(t *testing.T) {
	for member, field := range map[string]string{
		`7`:                       "",
		`{"colour":"red"}`:        ".colour",
		`{"alert":{"title":"T"}}`: ".alert",
		`{"alert":{"title":"T","body":"B","icon":"x"}}`: ".alert.icon",
		`{"alert":{"title":7,"body":"B"}}`:              ".alert.title",
		`{"priority":"urgent"}`:                         ".priority",
		`{"stale_after":"soon"}`:                        ".stale_after",
		`{"stale_after":0}`:                             ".stale_after",
		`{"dismiss_after":"5h","end":true}`:             ".dismiss_after",
		`{"dismiss_after":"1h"}`:                        ".dismiss_after",
		`{"relevance_score":-1}`:                        ".relevance_score",
		`{"end":"yes"}`:                                 ".end",
		`{"alert":{"title":"T","body":"` + strings.Repeat("x", 1025) + `"}}`: ".alert.body",
	} {
		p := object.Put{ContentType: "application/json", Payload: []byte(`{"eta":4,"godwit_activity":` + member + `}`)}
		var bad *notification.FieldError
		if err := p.Check(); !errors.As(err, &bad) || bad.Field != "payload.godwit_activity"+field {
			t.Errorf("%s: %v", member, err)
		}
	}
	for _, payload := range []string{`["godwit_activity"]`, `{"a":{"godwit_activity":7}}`, `"godwit_activity"`} {
		p := object.Put{ContentType: "application/json", Payload: []byte(payload)}
		if err := p.Check(); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
	}
}
