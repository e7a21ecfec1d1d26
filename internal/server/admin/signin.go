package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/signin"
)

// person is a signed-in person.
type person = signin.Person

// cookie returns the name of the cookie. With TLS its prefix makes browsers bind it to this host and to TLS.
func (a *admin) cookie() string {
	if a.TLS {
		return "__Host-godwit"
	}
	return "godwit"
}

func (a *admin) setCookie(w http.ResponseWriter, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: a.cookie(), Value: value, Path: "/", MaxAge: int(age / time.Second),
		HttpOnly: true, Secure: a.TLS, SameSite: http.SameSiteStrictMode,
	})
}

// login returns the login of a request; signin.ErrNoLogin: it has none. If the person's key was deleted or has other roles now, login also
// ends the login for ever.
func (a *admin) login(r *http.Request) (signin.Login, error) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), patience, fmt.Errorf("no answer in %s", patience))
	defer cancel()
	s, err := a.findLogin(ctx, r)
	if err == nil && !a.holds(s.Person) {
		if _, err = a.Logins.End(ctx, s.App, s.ID); err == nil {
			err = signin.ErrNoLogin
		}
	}
	return s, err
}

// mostCookies limits the examined cookies of the console's name: a browser sends one, unless a page on another port or host of the site has
// set more.
const mostCookies = 4

// cookies returns the cookies of a request that may identify a login.
func (a *admin) cookies(r *http.Request) []*http.Cookie {
	all := r.CookiesNamed(a.cookie())
	return all[:min(len(all), mostCookies)]
}

// findLogin finds the login whose cookie a request carries. Pages on other ports and hosts of the site may add cookies of the same name;
// cookies without a login are skipped. Browsers send the console's own cookie last, since its path is the shortest, so the last login
// counts.
func (a *admin) findLogin(ctx context.Context, r *http.Request) (found signin.Login, err error) {
	for _, c := range a.cookies(r) {
		s, err := a.Logins.Find(ctx, c.Value)
		switch {
		case errors.Is(err, signin.ErrNoLogin):
		case err != nil:
			return signin.Login{}, err
		default:
			found = s
		}
	}
	if found.ID == "" {
		return signin.Login{}, signin.ErrNoLogin
	}
	return found, nil
}

// remains reports whether the person who opened a streaming page may still see it.
func (a *admin) remains(r *http.Request, who person) bool {
	if !a.holds(who) {
		return false
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), patience, fmt.Errorf("no answer in %s", patience))
	defer cancel()
	return slices.ContainsFunc(a.cookies(r), func(c *http.Cookie) bool { return a.Logins.Remains(ctx, c.Value) })
}

// holds reports whether a person's key, or the rules for people from the provider, are as they were at sign-in.
func (a *admin) holds(who person) bool {
	if who.Role == signin.Operator && who.Key != "" {
		return a.operates(who)
	}
	if who.Key == "" {
		return a.Provider != nil && a.Provider.Rules() == who.Rules
	}
	if a.Dev && who.App == access.DevApp && who.Key == access.DevKey {
		return true // the development key is no secret, so no list contains it
	}
	return slices.ContainsFunc(a.Access.Keys(who.App), func(k access.Key) bool {
		role, _ := signin.RoleOf(k.Roles)
		return k.ID == who.Key && role == who.Role
	})
}

// front is the first page: it redirects signed-in people to the overview, and shows others the sign-in page.
func (a *admin) front(w http.ResponseWriter, r *http.Request) {
	switch _, err := a.login(r); {
	case err == nil:
		http.Redirect(w, r, "/ui/", http.StatusSeeOther)
	case errors.Is(err, signin.ErrNoLogin):
		a.door(w, r, http.StatusOK, "")
	default:
		a.Log.ErrorContext(r.Context(), "who is signed in to the web page could not be read", "error", err)
		a.door(w, r, http.StatusServiceUnavailable, cannotCheck)
	}
}

const cannotCheck = "Who is signed in cannot be checked just now. The server's log says more."

// welcome is the content of the sign-in page.
type welcome struct {
	Problem  string
	DevKey   string
	Provider string // the provider through which people can also sign in; empty: none
}

// door shows the sign-in page with the problem.
func (a *admin) door(w http.ResponseWriter, r *http.Request, status int, problem string, args ...any) {
	l := a.language(r)
	content := welcome{Problem: l.T(problem, args...)}
	if a.Dev {
		content.DevKey = access.DevKey
	}
	if a.Provider != nil {
		content.Provider = a.Provider.Host()
	}
	a.render(w, r, 0, status, "signin", "page", frame{Title: l.T("Sign in"), Version: a.Version, Content: content})
}

func (a *admin) signIn(w http.ResponseWriter, r *http.Request) {
	if !a.admitted(w, r) {
		return
	}
	if a.operatorSignIn(w, r, r.PostFormValue("key")) {
		return
	}
	key, err := a.Access.Key(r.Context(), r.PostFormValue("key"))
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		a.Log.InfoContext(r.Context(), "sign-in refused: no such key", "address", address(r))
		a.door(w, r, http.StatusForbidden, "This is not a key of this server.")
		return
	case err != nil:
		a.Log.ErrorContext(r.Context(), "sign-in failed", "error", err)
		a.door(w, r, http.StatusServiceUnavailable, "Keys cannot be checked just now. The server's log says more.")
		return
	}
	role, ok := signin.RoleOf(key.Roles)
	if !ok {
		a.note(r, person{App: key.App, Key: key.Key}, "sign-in", "", audit.Refused)
		a.door(w, r, http.StatusForbidden, "This key opens nothing here: its only role is %s. A person needs a key with the role read, publish or admin.", key.Roles.String())
		return
	}
	a.letIn(w, r, person{App: key.App, Key: key.Key, Role: role})
}

// letIn begins a login, and ends the one that the browser may have had.
func (a *admin) letIn(w http.ResponseWriter, r *http.Request, who person) {
	secret, err := a.Logins.Enter(r.Context(), who, address(r), r.UserAgent())
	if err == nil {
		err = a.leave(r)
	}
	if err != nil {
		a.cannotEnter(w, r, who, err)
		return
	}
	a.setCookie(w, secret, signin.LongestLogin)
	a.Log.InfoContext(r.Context(), "signed in to the web page", "app", who.App, "by", who.Name(), "role", who.Role.String())
	a.note(r, who, "sign-in", "", audit.Done)
	a.greet(w, r)
}

// address returns a request's source address.
func address(r *http.Request) string {
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return from.Addr().Unmap().String()
	}
	return ""
}

// leave ends the logins whose cookies a request carries.
func (a *admin) leave(r *http.Request) error {
	for _, c := range a.cookies(r) {
		s, err := a.Logins.Find(r.Context(), c.Value)
		if err == nil {
			if _, err = a.Logins.End(r.Context(), s.App, s.ID); err == nil {
				a.note(r, s.Person, "sign-out", "", audit.Done)
			}
		}
		if err != nil && !errors.Is(err, signin.ErrNoLogin) {
			return err
		}
	}
	return nil
}

func (a *admin) signOut(w http.ResponseWriter, r *http.Request) {
	if err := a.leave(r); err != nil { // a copy of the cookie would still be valid
		a.Log.ErrorContext(r.Context(), "sign-out failed", "error", err)
		a.render(w, r, 0, http.StatusServiceUnavailable, "error", "page", frame{Title: a.language(r).T("Error"), Version: a.Version, Content: notice{Text: a.language(r).T("You could not be signed out. Try again in a moment.")}})
		return
	}
	a.setCookie(w, "", -time.Second)
	http.SetCookie(w, a.wantedCookie("", -time.Second))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
