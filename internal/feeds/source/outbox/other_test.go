package outbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/feeds/source"
)

// shared is a connection to a database where another reader has a transaction for some time.
type shared struct {
	conn
	other time.Time // its end; zero: it never ends
	open  int       // transactions
}

func (c *shared) begin(context.Context) (bool, error) {
	c.open++
	return !c.other.IsZero() && !time.Now().Before(c.other), nil
}

func (c *shared) rollback() { c.open-- }

// said is the latest detail.
type said struct {
	source.Emitter
	text string
}

func (s *said) Detail(text string) { s.text = text }

func TestAnotherReaderIsWaitedForAsLongAsADeadOneCanHoldRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ lasts, waits time.Duration }{
		"ends":       {10 * time.Second, 10 * time.Second},
		"never ends": {0, otherMost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, db, to := time.Now(), &shared{}, &said{}
				if c.lasts > 0 {
					db.other = began.Add(c.lasts)
				}
				f := &feed{c: db}
				for range 2 { // the second page waits for nobody
					if err := f.begin(t.Context(), to); err != nil {
						t.Fatal(err)
					}
				}
				if waited := time.Since(began); waited < c.waits || waited > c.waits+pollLeast || db.open != 2 {
					t.Errorf("it waited %s, and %d transactions are open", waited, db.open)
				}
				if (to.text == "") != (c.lasts > 0) {
					t.Errorf("it says %q", to.text)
				}
			})
		})
	}
}
