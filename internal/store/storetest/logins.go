package storetest

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
)

var loginCases = map[string]func(e *appEnv){
	"WhoIsSignedInSurvivesReopening":        loginIsKept,
	"LoginsOfAppsAreApart":                  loginsApart,
	"LoginsAreBounded":                      loginsBounded,
	"WithAKeyGoWhoIsSignedInByIt":           loginsEndWithTheirKey,
	"WithAnAppGoWhoIsSignedInAndNobodyElse": loginsEndWithTheirApp,
	"OperatorsSignInToNoApp":                operatorsSignIn,
}

var signedInAt = time.UnixMilli(1_700_000_000_123).UTC()

func loginOf(app, id string) signin.Login {
	return signin.Login{
		ID: id, Person: signin.Person{App: app, Key: "k-" + app, Role: signin.Send}, Since: signedInAt, Seen: signedInAt, Address: "192.0.2.1", Browser: "Firefox",
	}
}

func hashOf(id string) signin.Hash { return sha256.Sum256([]byte(id)) }

// widely bounds nothing.
var widely = signin.Bounds{Most: 100}

func (e *appEnv) enter(s signin.Login, b signin.Bounds) {
	e.Helper()
	e.ok(e.s.AddLogin(e.Context(), hashOf(s.ID), s, b))
}

// signedIn checks which logins an app has, most recently seen first.
func (e *appEnv) signedIn(app string, want ...string) {
	e.Helper()
	list, err := e.s.Logins(e.Context(), app, 100)
	e.ok(err)
	var got []string
	for i := range list {
		got = append(got, list[i].ID)
	}
	if !reflect.DeepEqual(got, want) {
		e.Errorf("signed in to %s are %v, want %v", app, got, want)
	}
}

func loginIsKept(e *appEnv) {
	ctx := e.Context()
	e.app("shop")
	made := signin.Login{
		ID: "s1", Person: signin.Person{App: "shop", Subject: "sub", Email: "anna@example.org", Rules: "r", Role: signin.Admin},
		Since: signedInAt, Seen: signedInAt.Add(time.Minute), Address: "2001:db8::1", Browser: "Ünïcode <b>",
	}
	e.enter(made, widely)
	e.s = e.reopen()
	if got, err := e.s.Login(ctx, hashOf("s1")); err != nil || !reflect.DeepEqual(got, made) {
		e.Errorf("got %+v, %v; want %+v", got, err, made)
	}
	e.ok(e.s.SeeLogin(ctx, hashOf("s1"), signedInAt.Add(time.Hour)))
	e.ok(e.s.SeeLogin(ctx, hashOf("s1"), signedInAt)) // what was later stays
	e.ok(e.s.SeeLogin(ctx, hashOf("nobody"), signedInAt))
	if got, err := e.s.Login(ctx, hashOf("s1")); err != nil || !got.Seen.Equal(signedInAt.Add(time.Hour)) {
		e.Errorf("seen at %s, %v", got.Seen, err)
	}
	_, err := e.s.Login(ctx, hashOf("S1"))
	e.fails(map[string]struct{ err, want error }{
		"another secret":   {err, signin.ErrNoLogin},
		"login of no app":  {e.s.AddLogin(ctx, hashOf("x"), loginOf("none", "x"), widely), access.ErrUnknownApp},
		"a login is there": {e.s.AddLogin(ctx, hashOf("s2"), loginOf("shop", "s2"), widely), nil},
	})
}

func loginsApart(e *appEnv) {
	ctx := e.Context()
	for _, app := range []string{"a", "b"} {
		e.app(app)
		e.enter(loginOf(app, "1-"+app), widely)
		e.enter(loginOf(app, "2-"+app), widely)
	}
	for _, c := range []struct {
		ids  []string
		want int
	}{{[]string{"1-b", "none"}, 0}, {[]string{"1-a", "2-b", "2-a"}, 2}, {[]string{"1-a"}, 0}} {
		if n, err := e.s.EndLogins(ctx, "a", c.ids); err != nil || n != c.want {
			e.Errorf("ending %v ended %d, %v; want %d", c.ids, n, err, c.want)
		}
	}
	e.signedIn("a")
	e.signedIn("b", "1-b", "2-b")
	_, err := e.s.Login(ctx, hashOf("1-a"))
	e.fails(map[string]struct{ err, want error }{"its cookie": {err, signin.ErrNoLogin}})
}

func loginsBounded(e *appEnv) {
	e.app("a")
	e.app("b")
	e.enter(loginOf("b", "other"), widely)
	for i := range 4 {
		s := loginOf("a", fmt.Sprint("s", i))
		s.Since, s.Seen = signedInAt.Add(time.Duration(i)*time.Minute), signedInAt.Add(time.Duration(10-i)*time.Minute)
		e.enter(s, widely)
	}
	e.signedIn("a", "s0", "s1", "s2", "s3")
	next := func(id string, b signin.Bounds) {
		s := loginOf("a", id)
		s.Since, s.Seen = signedInAt.Add(20*time.Minute), signedInAt.Add(20*time.Minute)
		e.enter(s, b)
	}
	next("s4", signin.Bounds{Most: 4}) // it replaces the login that was seen longest ago
	e.signedIn("a", "s4", "s0", "s1", "s2")
	e.signedIn("b", "other")                               // is counted for itself
	next("s5", signin.Bounds{Since: signedInAt, Most: 10}) // s0 is older than allowed
	e.signedIn("a", "s4", "s5", "s1", "s2")
	next("s6", signin.Bounds{Seen: signedInAt.Add(9 * time.Minute), Most: 10}) // the others have not been seen recently enough
	e.signedIn("a", "s4", "s5", "s6")
	if list, err := e.s.Logins(e.Context(), "a", 2); err != nil || len(list) != 2 {
		e.Errorf("asked for two: %+v, %v", list, err)
	}
}

func loginsEndWithTheirKey(e *appEnv) {
	ctx := e.Context()
	for _, app := range []string{"a", "b"} {
		e.app(app)
		e.ok(e.s.CreateKey(ctx, keyOf(app, "k-"+app)))
		e.enter(loginOf(app, "of-"+app), widely)
	}
	byProvider := loginOf("a", "mail")
	byProvider.Key, byProvider.Subject = "", "sub"
	e.enter(byProvider, widely)
	e.fails(map[string]struct{ err, want error }{"another app's key": {e.s.DeleteKey(ctx, "b", "k-a"), access.ErrUnknownKey}})
	e.signedIn("a", "mail", "of-a")
	e.ok(e.s.DeleteKey(ctx, "a", "k-a"))
	e.signedIn("a", "mail")
	e.signedIn("b", "of-b")
}

func loginsEndWithTheirApp(e *appEnv) {
	for _, app := range []string{"a", "b"} {
		e.app(app)
		e.enter(loginOf(app, "of-"+app), widely)
	}
	e.ok(e.s.DeleteApp(e.Context(), "a", nil))
	e.signedIn("a")
	e.signedIn("b", "of-b")
}

func operatorsSignIn(e *appEnv) {
	who := signin.Login{ID: "o", Person: signin.Person{Key: "operator-1", Role: signin.Operator}, Since: signedInAt, Seen: signedInAt}
	e.enter(who, widely) // before there is an app
	e.app("shop")
	e.enter(loginOf("shop", "s"), widely)
	e.signedIn("", "o")
	e.signedIn("shop", "s")
	if got, err := e.s.Login(e.Context(), hashOf("o")); err != nil || got.Person != who.Person {
		e.Errorf("got %+v, %v", got.Person, err)
	}
	e.ok(e.s.DeleteApp(e.Context(), "shop", nil))
	e.signedIn("", "o")
	if n, err := e.s.EndLogins(e.Context(), "", []string{"o", "s"}); n != 1 || err != nil {
		e.Errorf("ended %d, %v", n, err)
	}
}
