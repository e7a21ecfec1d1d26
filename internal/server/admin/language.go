package admin

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"time"

	"godwit.dev/godwit/internal/server/admin/words"
)

const (
	languagePath = "/ui/language"
	languageKept = 365 * 24 * time.Hour // for which a browser remembers the choice
)

// languageCookie is the name of the cookie with the language that a person chose. It holds no secret, and strangers may have one: the
// sign-in page speaks their language, too.
func (a *admin) languageCookie() string { return a.cookie() + "-language" }

// language returns the language of the answer to a request: the chosen one, or else the nearest to those that the browser accepts.
func (a *admin) language(r *http.Request) *words.Language {
	chosen := ""
	if c, err := r.Cookie(a.languageCookie()); err == nil {
		chosen = c.Value
	}
	return words.Choose(chosen, r.Header.Get("Accept-Language"))
}

// chooseLanguage stores the choice of a language in the browser, and shows the page again from which it came.
func (a *admin) chooseLanguage(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || words.Tagged(r.PostForm.Get("language")) == nil {
		a.fail(w, r, person{}, mistaken(http.StatusBadRequest, "The console does not speak this language."))
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: a.languageCookie(), Value: r.PostForm.Get("language"), Path: "/", MaxAge: int(languageKept / time.Second),
		HttpOnly: true, Secure: a.TLS, SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, r, a.cameFrom(r), http.StatusSeeOther)
}

// cameFrom returns the path of the page of the console that a form was on; the first page if it cannot be known.
func (a *admin) cameFrom(r *http.Request) string {
	from, err := url.Parse(r.Referer())
	if err != nil || from.Path == "" || from.Path[0] != '/' || len(from.Path) > 1 && (from.Path[1] == '/' || from.Path[1] == '\\') {
		return "/"
	}
	if own, err := url.Parse(a.Origin); from.Host != r.Host && (err != nil || own.Host == "" || from.Host != own.Host) {
		return "/"
	}
	return (&url.URL{Path: from.Path, RawQuery: from.RawQuery}).String()
}

// t says a text in the visitor's language: see words.Language.T.
func (v *visit) t(key string, args ...any) string { return v.lang.T(key, args...) }

// tn says a text about n things.
func (v *visit) tn(n int64, one, many string, args ...any) string {
	return v.lang.N(n, one, many, args...)
}

// inScripts are the texts of the scripts, which each page hands to them.
var inScripts = map[string]string{
	"copy": "Copy", "copied": "Copied", "selected": "Selected", "sent": "%[1]s of %[2]s MB sent",
	"time": "Time", "day": "day", "gained": "gained", "lost": "lost",
	"gone":       "You are not signed in any more. Load the page anew to sign in.",
	"told":       "The server does not tell what happens any more. Load the page anew.",
	"away":       "The connection to the server is lost. The steps go on once it is back.",
	"figures":    "The server sends no figures any more. Load the page anew.",
	"still":      "The connection to the server is lost. The figures stand still until it is back.",
	"meanwhile":  "The connection to the server is lost. What happens meanwhile is shown once it is back.",
	"watch":      "Watch",
	"stop":       "Stop",
	"connecting": "Connecting…",
	"waiting":    "Waiting for what comes. Nothing is acknowledged by that.",
	"later":      "The server does not tell what comes. Try again in a moment.",
	"unseen":     "The connection to the server is lost. What comes meanwhile is not shown.",
	"stopped":    "Stopped.",
}

// scriptWords returns the scripts' texts as JSON.
func scriptWords(l *words.Language) string {
	said := maps.Clone(inScripts)
	for name, key := range said {
		said[name] = l.T(key)
	}
	b, _ := json.Marshal(said) // strings
	return string(b)
}
