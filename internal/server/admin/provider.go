package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/access/signin/provider"
	"godwit.dev/godwit/internal/notify/notification"
)

// wayCookie holds the state of a sign-in while the person is at the provider. They return by a link on another site, so the cookie is Lax:
// browsers would not send a strict one.
func (a *admin) wayCookie(value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: a.cookie() + "-way", Value: value, Path: "/", MaxAge: int(age / time.Second), HttpOnly: true, Secure: a.TLS, SameSite: http.SameSiteLaxMode,
	}
}

// admitted reports whether this address may try to sign in now, and otherwise shows the sign-in page with the reason.
func (a *admin) admitted(w http.ResponseWriter, r *http.Request) bool {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || a.Admit == nil || a.Admit(addr.Addr()) {
		return true
	}
	a.door(w, r, http.StatusTooManyRequests, "Too many attempts. Wait a moment, then try again.")
	return false
}

// goToProvider redirects a person to the provider, which redirects them back to comeBack.
func (a *admin) goToProvider(w http.ResponseWriter, r *http.Request) {
	if !a.admitted(w, r) {
		return
	}
	app := r.URL.Query().Get("app")
	if app != "" && app != wholeServer && notification.CheckName("app", app) != nil {
		a.door(w, r, http.StatusBadRequest, "There is no app of this name.")
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), patience, fmt.Errorf("the provider did not answer in %s", patience))
	defer cancel()
	to, way, err := a.Provider.Begin(ctx, app)
	if err != nil {
		a.refused(w, r, err)
		return
	}
	http.SetCookie(w, a.wayCookie(way, provider.MaxWait))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// refused shows the sign-in page with the reason.
func (a *admin) refused(w http.ResponseWriter, r *http.Request, err error) {
	var no *provider.Refusal
	if !errors.As(err, &no) {
		a.Log.ErrorContext(r.Context(), "sign-in failed", "error", err)
		a.door(w, r, http.StatusServiceUnavailable, "You cannot be signed in just now. The server's log says more.")
		return
	}
	if no.Cause != nil {
		a.Log.WarnContext(r.Context(), "sign-in refused", "issuer", a.Provider.Host(), "error", no.Cause)
	}
	a.door(w, r, http.StatusForbidden, no.Text)
}

// comeBack signs in a person whom the provider has authenticated and a rule admits.
func (a *admin) comeBack(w http.ResponseWriter, r *http.Request) {
	if !a.admitted(w, r) {
		return
	}
	way := ""
	if c, err := r.Cookie(a.cookie() + "-way"); err == nil {
		way = c.Value
	}
	http.SetCookie(w, a.wayCookie("", -time.Second)) // this sign-in ends here, whatever its result
	ctx, cancel := context.WithTimeoutCause(r.Context(), patience, fmt.Errorf("the provider did not answer in %s", patience))
	defer cancel()
	list, wanted, err := a.Provider.Finish(ctx, way, r.URL.Query())
	if err != nil {
		a.refused(w, r, err)
		return
	}
	switch who, found := choose(list, wanted); {
	case found:
		a.letIn(w, r, who)
	case len(list) > 0 && wanted == "":
		a.render(w, r, 0, http.StatusOK, "choose", "page", frame{Title: a.language(r).T("Choose"), Version: a.Version, Content: list})
	default:
		a.Log.InfoContext(r.Context(), "nobody's rules let this person in to the web page", "issuer", a.Provider.Host(), "app", wanted)
		text, args := nobodysRule(wanted)
		a.door(w, r, http.StatusForbidden, text, append([]any{a.Provider.Host()}, args...)...)
	}
}

// nobodysRule says that no rule lets a person in; the text's first argument is the provider.
func nobodysRule(app string) (text string, more []any) {
	switch app {
	case "":
		return "You are known to %s, but no rule of this server lets you in. Ask who runs it.", nil
	case wholeServer:
		return "You are known to %s, but no rule of this server lets you in as an operator. Ask who runs it.", nil
	}
	return "You are known to %[1]s, but no rule of this server lets you in to %[2]s. Ask who runs it.", []any{app}
}

// wholeServer stands for no app, among those that people choose from. It is the name of none.
const wholeServer = "/"

// choose selects the person's identity: the one in the wanted app, or the only one.
func choose(list []signin.Person, wanted string) (signin.Person, bool) {
	for _, who := range list {
		if wanted != "" && cmp.Or(who.App, wholeServer) == wanted || wanted == "" && len(list) == 1 {
			return who, true
		}
	}
	return signin.Person{}, false
}

// greet sends a newly signed-in person to the pages. After a link from another site, browsers send no strict cookie, not even after a
// redirect; so a page of our own forwards the browser.
func (a *admin) greet(w http.ResponseWriter, r *http.Request) {
	to := a.wanted(w, r)
	if r.Method == http.MethodPost {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	a.forward(w, r, a.language(r).T("You are signed in"), to)
}

// cannotEnter shows the reason why a login could not begin.
func (a *admin) cannotEnter(w http.ResponseWriter, r *http.Request, who person, err error) {
	if errors.Is(err, access.ErrUnknownApp) {
		a.Log.WarnContext(r.Context(), "a rule lets people in to an app that does not exist", "app", who.App)
		a.door(w, r, http.StatusForbidden, "The app %s does not exist on this server. Ask who runs it.", who.App)
		return
	}
	a.Log.ErrorContext(r.Context(), "sign-in failed", "error", err)
	a.door(w, r, http.StatusServiceUnavailable, "You cannot be signed in just now. The server's log says more.")
}
