package admin

import (
	"cmp"
	"net/http"
	"strings"

	"godwit.dev/godwit/internal/server/admin/words"
)

// A page says with each of its requests, by script, to which app it belongs: browsers share the login between tabs, so somebody may have
// signed in to another app since. Its forms must not act there.
const (
	pageAppHeader = "Godwit-App"
	pageAppField  = "signed-in-to" // of forms that the browser posts by itself
)

// pageApp is the app that a person's pages name.
func pageApp(who person) string { return cmp.Or(who.App, wholeServer) }

// sameApp fails if a request comes from a page of another app than the person is signed in to.
func sameApp(r *http.Request, who person, l *words.Language) error {
	named := r.Header.Get(pageAppHeader)
	if named == "" && r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		if err := parseForm(r); err != nil {
			return err
		}
		named = r.PostForm.Get(pageAppField)
		r.PostForm.Del(pageAppField)
	}
	if named == "" || named == pageApp(who) {
		return nil
	}
	place := func(app string) string {
		if app == wholeServer {
			return l.T("The server's apps")
		}
		return clip(app, 80)
	}
	return mistaken(http.StatusConflict, "This page is of “%[1]s”, and you have signed in to “%[2]s” since it was opened. Nothing was done. Load the page anew, or sign in to “%[1]s” in another tab and do it here again.", place(named), place(pageApp(who)))
}
