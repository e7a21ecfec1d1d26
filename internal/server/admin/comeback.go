package admin

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Limits of the page to which a person returns after they have signed in.
const (
	mostWanted = 1000             // bytes of its address
	waitWanted = 30 * time.Minute // how long the browser keeps it
)

// wantedCookie holds the address of the page that a person asked for before they signed in. Like that of a sign-in it is Lax: they may return
// from a provider on another site.
func (a *admin) wantedCookie(address string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: a.cookie() + "-to", Value: url.QueryEscape(address), Path: "/", MaxAge: int(age / time.Second), HttpOnly: true, Secure: a.TLS, SameSite: http.SameSiteLaxMode,
	}
}

// remember keeps the address of the page that a person wants to see, until they have signed in.
func (a *admin) remember(w http.ResponseWriter, r *http.Request) {
	address := r.URL.RequestURI()
	if byScript := r.Header.Get("HX-Current-URL"); byScript != "" { // a part of the page that the person sees
		at, err := url.Parse(byScript)
		if err != nil {
			return
		}
		address = at.RequestURI()
	}
	if isOwnPage(address) {
		http.SetCookie(w, a.wantedCookie(address, waitWanted))
	}
}

// wanted returns the page to which a person goes who has signed in: the one that they wanted to see, or the overview.
func (a *admin) wanted(w http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(a.cookie() + "-to")
	if err != nil {
		return "/ui/"
	}
	http.SetCookie(w, a.wantedCookie("", -time.Second))
	if address, err := url.QueryUnescape(c.Value); err == nil && isOwnPage(address) {
		return address
	}
	return "/ui/"
}

// isOwnPage reports whether an address is that of a page of the console: nobody is led elsewhere.
func isOwnPage(address string) bool {
	at, err := url.Parse(address)
	return err == nil && len(address) <= mostWanted && at.Scheme == "" && at.Host == "" && strings.HasPrefix(at.Path, "/ui/") && !strings.HasSuffix(at.Path, endless) && !strings.Contains(at.Path, "/..") && !strings.Contains(address, `\`)
}

// fromElsewhere reports whether a person has followed a link on another site. Browsers send no strict cookie then, so that somebody who is
// signed in seems not to be.
func fromElsewhere(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// forwarded is a page that leads to another.
type forwarded struct{ Title, Path string }

// forward lets a page of our own ask for a page, with the cookie.
func (a *admin) forward(w http.ResponseWriter, r *http.Request, title, to string) {
	w.Header().Set("Refresh", "0; url="+to)
	a.render(w, r, 0, http.StatusOK, "entered", "page", frame{Title: title, Version: a.Version, Content: forwarded{title, to}})
}
