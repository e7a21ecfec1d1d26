package session

import "testing"

func TestNoMoreReadAtOnceThanTheLimit(t *testing.T) {
	c := &catchUps{limit: 2}
	for app, want := range []bool{true, true, false} {
		if start := c.add(&Session{app: string(rune('a' + app))}); start != want {
			t.Errorf("session %d starts a reader: %t", app+1, start)
		}
	}
	read := ""
	for done, batch := c.next(nil); done != nil; done, batch = c.next(done) {
		read += batch[0].app
	}
	if c.next(nil); read != "abc" || c.running != 0 || len(c.apps) != 0 {
		t.Errorf("read are %q; %d readers and %d apps are left", read, c.running, len(c.apps))
	}
}
