package call

import (
	"fmt"
	"testing"
	"time"
)

func TestAKeyKeepsItsBodyForADay(t *testing.T) {
	var b Bodies
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	use := func(app, key, body string, want bool) func() {
		t.Helper()
		undo, err := b.Use(app, key, []byte(body), now)
		if (err == nil) != want {
			t.Errorf("%s of %s with %s: %v", key, app, body, err)
		}
		return undo
	}
	use("shop", "k", "a", true)
	use("shop", "k", "a", true)
	use("shop", "k", "b", false)
	use("other", "k", "b", true)
	use("shop", "l", "bad", true)()
	use("shop", "l", "mended", true)
	now = now.Add(bodiesFor - 1)
	use("shop", "k", "b", false)
	now = now.Add(1)
	use("shop", "k", "b", true)
	for i := range maxBodies {
		use("shop", fmt.Sprint(i), "x", true)
	}
	if len(b.used) > maxBodies || len(b.last) > maxBodies {
		t.Errorf("%d keys are kept", len(b.used))
	}
	use("shop", "k", "c", true)
}
