package signin_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
)

// lobby is a sign-in for the app shop, with a clock set by the test.
type lobby struct {
	*testing.T
	*signin.Logins
	store *appdb.Store
	now   time.Time
}

func newLobby(t *testing.T) *lobby {
	t.Helper()
	store := sqlitetest.Apps(t, slog.New(slog.DiscardHandler))
	must(t, store.CreateApp(t.Context(), access.App{Name: "shop"}))
	l := &lobby{T: t, store: store, now: time.UnixMilli(1_700_000_000_000)}
	l.Logins = signin.NewLogins(store, func() time.Time { return l.now })
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var anna = signin.Person{App: "shop", Key: "k1", Role: signin.Send}

func (l *lobby) enter() string {
	l.Helper()
	secret, err := l.Enter(l.Context(), anna, "192.0.2.7", "Firefox")
	must(l.T, err)
	return secret
}

func TestACookieOpensUntilItIsIdleOrOldOrEnded(t *testing.T) {
	l := newLobby(t)
	secret := l.enter()
	for range 10 { // each request is just before the idle limit, so that only the login's age ends it
		l.now = l.now.Add(signin.LongestIdle - time.Second)
		if s, err := l.Find(t.Context(), secret); err != nil || s.Person != anna {
			t.Fatalf("after %s: %+v, %v", l.now.Sub(s.Since), s, err)
		}
	}
	l.now = time.UnixMilli(1_700_000_000_000).Add(signin.LongestLogin)
	if _, err := l.Find(t.Context(), secret); !errors.Is(err, signin.ErrNoLogin) {
		t.Errorf("after %s: %v", signin.LongestLogin, err)
	}

	idle := l.enter()
	l.now = l.now.Add(signin.LongestIdle)
	if _, err := l.Find(t.Context(), idle); !errors.Is(err, signin.ErrNoLogin) {
		t.Errorf("after %s without doing anything: %v", signin.LongestIdle, err)
	}
	if list, err := l.Of(t.Context(), "shop"); err != nil || len(list) != 0 {
		t.Errorf("whose time is over is still listed: %+v, %v", list, err)
	}

	ended := l.enter()
	s, err := l.Find(t.Context(), ended)
	must(t, err)
	if n, err := l.End(t.Context(), "shop", s.ID); err != nil || n != 1 {
		t.Errorf("ended %d, %v", n, err)
	}
	for _, guess := range []string{ended, "", s.ID, strings.ToLower(ended)} {
		if _, err := l.Find(t.Context(), guess); !errors.Is(err, signin.ErrNoLogin) {
			t.Errorf("%q opens: %v", guess, err)
		}
	}
}

func TestLastSeenIsWrittenOnceAMinute(t *testing.T) {
	l := newLobby(t)
	secret := l.enter()
	before := l.store.DB().Commits()
	for range 50 {
		l.now = l.now.Add(time.Second)
		if _, err := l.Find(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.store.DB().Commits() - before; n != 0 {
		t.Errorf("50 looks within a minute were written %d times", n)
	}
	l.now = l.now.Add(10 * time.Second)
	for range 50 {
		if _, err := l.Find(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.store.DB().Commits() - before; n != 1 {
		t.Errorf("after a minute it was written %d times", n)
	}
}

func TestTextsFromOutsideAreCutAndCleaned(t *testing.T) {
	for in, want := range map[string]string{
		"Firefox":                          "Firefox",
		"a\r\nSet-Cookie: x\x00\x1b[31m":   "a  Set-Cookie: x  [31m",
		"\xff\xfeok":                       "ok",
		"\u202egro.live":                   "gro.live",
		strings.Repeat("ä", 150):           strings.Repeat("ä", 100),
		"x" + strings.Repeat("ä", 150):     "x" + strings.Repeat("ä", 99),
		"  " + strings.Repeat("z", 100000): strings.Repeat("z", 200),
	} {
		if got := signin.Clean(in); got != want {
			t.Errorf("%.40q becomes %q, want %q", in, got, want)
		}
	}
}
