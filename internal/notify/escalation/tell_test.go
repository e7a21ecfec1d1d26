package escalation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestOwnerLooksWhenToldThatAStepIsDue: the query a second later would find the last step without a message.
func TestOwnerLooksWhenToldThatAStepIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Now: time.Now, Own: func(string, func(context.Context, func() bool)) func() { return nil }})
		for _, body := range []string{`{"due":true,"in":700,"apps":["a"]}`, `{"due":true,"in":300}`, `{"due":true,"in":500}`} {
			if err := s.Heard([]byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []time.Duration{300 * time.Millisecond, lookShared} {
			next, err := s.step(t.Context(), false)
			if next = s.plan(next); err != nil || next != want {
				t.Errorf("looks again in %s, %v; want %s", next, err, want)
			}
			time.Sleep(next)
		}
		if err := s.Heard([]byte("{")); err == nil {
			t.Error("what cannot be read is taken")
		}
	})
}
