// Package admin is the web page for people: campaigns with their progress, composing one, the audience. Pages are
// rendered on the server; the embedded htmx swaps parts. Nothing is loaded from elsewhere and no inline script runs.
package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/access/signin/provider"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/resource"
	"godwit.dev/godwit/internal/server/admin/words"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/watch"
)

// Access verifies the API keys that people sign in with.
type Access interface {
	Key(ctx context.Context, secret string) (access.Principal, error)
	// Keys lists an app's keys. A person is signed out once their key is deleted or has other roles.
	Keys(app string) []access.Key
}

// SignInParts holds what the pages need to sign people in.
type SignInParts struct {
	Access   Access
	Logins   *signin.Logins
	Provider *provider.Provider // authenticates people; nil: they sign in with keys alone
	Apps     Apps               // that operators manage; nil: there are no operators
	// Admit limits the attempts to sign in from an address; nil: no limit.
	Admit func(netip.Addr) bool
	Dev   bool // the sign-in page names the development key
	TLS   bool // cookies are sent over encrypted connections only
	// Origin is the pages' origin as people reach them, even if a proxy changes Host; empty: Host gives it.
	Origin string
}

// CampaignParts holds what the pages of campaigns need.
type CampaignParts struct {
	Campaigns Campaigns
	Audience  Audience
	Templates Templates
	Segments  Segments
	// Ready reports whether a channel of an app can send.
	Ready func(ctx context.Context, app string, ch push.Channel) bool
}

// RecipientParts holds what the pages of single recipients, notifications and objects need.
type RecipientParts struct {
	Recipients Recipients
	Mailbox    Mailbox
	Timelines  Timelines
	Presence   Presence
	Objects    Objects
	Publisher  Publisher
	// Preferences are what recipients chose. Nil: nothing.
	Preferences Preferences
	// PublishLimit takes n publishes from a key's budget; wait > 0: it refuses them, and the caller may try again after wait. Nil: no
	// limit.
	PublishLimit func(key string, n int) (wait time.Duration)
}

// IntegrationParts connect an app with outside services, and hold the keys of its own programs.
type IntegrationParts struct {
	Settings AppSettings
	Keys     Keys
	Channels Channels
	Hooks    resource.Hooks
	Sinks    resource.Sinks
	Sources  resource.Sources
}

// Config holds the parts that the pages need.
type Config struct {
	SignInParts
	CampaignParts
	RecipientParts
	IntegrationParts
	Pages []module.Page // of modules
	Audit *audit.Log    // records people's actions; nil: they are not recorded
	// Watch records the server's figures, its refusals and its warnings. Nil: they are not recorded.
	Watch *watch.Server
	// Draining, when closed, ends pages that stream events, so that the server can stop.
	Draining <-chan struct{}
	Log      *slog.Logger
	Version  string
}

type admin struct {
	Config
	pages pages
	csrf  *http.CrossOriginProtection
	now   func() time.Time

	streams streams
}

// New makes the handler of "/" and everything below /ui/.
func New(cfg Config) (http.Handler, error) {
	a := &admin{Config: cfg, csrf: http.NewCrossOriginProtection(), now: time.Now}
	a.pages.places = navigationWith(cfg.Pages)
	if a.Origin != "" {
		if err := a.csrf.AddTrustedOrigin(a.Origin); err != nil {
			return nil, fmt.Errorf("trust the origin of public_url: %w", err)
		}
	}
	if a.Watch == nil {
		a.Watch = watch.Alone(watch.New(), "")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.front)
	mux.HandleFunc("POST /ui/sign-in", a.signIn)
	mux.HandleFunc("POST /ui/sign-out", a.signOut)
	mux.HandleFunc("POST "+languagePath, a.chooseLanguage)
	if a.Provider != nil {
		mux.HandleFunc("GET /ui/oidc/start", a.goToProvider)
		mux.HandleFunc("GET /ui/oidc/callback", a.comeBack)
	}
	mux.HandleFunc("GET /ui/assets/{version}/{name}", serveAsset)
	mux.HandleFunc("GET /ui/", a.signedIn(a.showNothing))
	own := a.routes()
	maps.Copy(own, a.operatorRoutes())
	for i := range cfg.Pages {
		p := &cfg.Pages[i]
		if _, taken := own["GET "+p.Path]; taken || p.Path == "/ui/" {
			return nil, &TakenError{p.Path}
		}
		own["GET "+p.Path] = route{role: p.Role, serve: func(v *visit) error { return a.showModule(v, p) }}
	}
	for pattern, rt := range own {
		mux.HandleFunc(pattern, a.signedIn(a.allowed(pattern, rt)))
	}
	return a.csrf.Handler(secure(mux)), nil
}

// visit is one request of a signed-in person.
type visit struct {
	w      http.ResponseWriter
	r      *http.Request
	person person
	lang   *words.Language
	login  string // id of the login that the request belongs to
	status int    // status of the answer; 0: none yet
	again  bool   // the answer shows the form again: nothing was done
	made   string // name of the created object, if the path does not end with it
}

type page func(v *visit) error

// policy allows only what the pages need: our own files, and pictures that a campaign names.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' https: data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // without a referrer, browsers would not report the page that posts a form
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(time.Now().Add(patience))      // fails only for a test's writer, which has no deadlines
		_ = rc.SetWriteDeadline(time.Now().Add(2 * patience)) // the same
		most := int64(maxForm)
		switch r.URL.Path {
		case importPath, importCheckPath:
			most = maxImport
		case mediumPath:
			most = maxMedium
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		next.ServeHTTP(w, r)
	})
}

// maxForm limits a posted form, in bytes: the longest campaign is far shorter.
const maxForm = 256 << 10

// patience limits the time in which a page is made.
const patience = 15 * time.Second

// signedIn runs a page for signed-in people, and redirects others to the front page.
func (a *admin) signedIn(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, err := a.login(r)
		if errors.Is(err, signin.ErrNoLogin) {
			a.outside(w, r)
			return
		}
		if err != nil {
			a.Log.ErrorContext(r.Context(), "who is signed in to the web page could not be read", "error", err)
			a.fail(w, r, person{}, mistaken(http.StatusServiceUnavailable, cannotCheck))
			return
		}
		if err := sameApp(r, s.Person, a.language(r)); err != nil {
			a.fail(w, r, s.Person, err)
			return
		}
		ctx := r.Context()
		if !strings.HasSuffix(r.Pattern, endless) {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, patience, fmt.Errorf("the page was not ready in %s", patience))
			defer cancel()
		}
		if err := p(&visit{w: w, r: r.WithContext(ctx), person: s.Person, login: s.ID, lang: a.language(r)}); err != nil {
			a.fail(w, r, s.Person, err)
		}
	}
}

// outside answers a request without a login. A posted form is not led away from: what the person typed would be lost, and they would not
// learn that nothing was done.
func (a *admin) outside(w http.ResponseWriter, r *http.Request) {
	byScript := r.Header.Get("HX-Request") != ""
	switch {
	case r.Method == http.MethodPost && byScript:
		a.fail(w, r, person{}, mistaken(http.StatusUnauthorized, "You are no longer signed in, so nothing was done. Sign in in another tab of this browser, and press the button here again: what you typed is still here."))
	case r.Method == http.MethodPost:
		a.door(w, r, http.StatusUnauthorized, "You are no longer signed in, so nothing was done. Sign in, and do it again.")
	case byScript:
		a.remember(w, r)
		w.Header().Set("HX-Redirect", "/")
		w.WriteHeader(http.StatusUnauthorized)
	case fromElsewhere(r) && isOwnPage(r.URL.RequestURI()):
		a.forward(w, r, a.language(r).T("One moment"), r.URL.RequestURI())
	default:
		a.remember(w, r)
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

// mistake is an error that a person can mend.
type mistake struct {
	status int
	text   string // in English, with places for args
	args   []any
	cause  error // of another part of the program, whose words are said; nil: text is

	troubles []trouble // with fields of the form at the path at
	at       string
}

// mistaken makes a mistake. The page shows its text in the person's language.
func mistaken(status int, text string, args ...any) *mistake {
	return &mistake{status: status, text: text, args: args}
}

func (m *mistake) Error() string { return m.in(words.English) }

// in returns the text in a language.
func (m *mistake) in(l *words.Language) string {
	if m.cause == nil {
		return l.T(m.text, worded(l, m.args)...)
	}
	if field, ok := errors.AsType[*notification.FieldError](m.cause); ok {
		return wholeProblem(l, field)
	}
	return problemIn(l, m.cause.Error())
}

// fail shows an error: a mistake that the person can mend with its text, any other error without details, which go to the log.
func (a *admin) fail(w http.ResponseWriter, r *http.Request, who person, err error) {
	l := a.language(r)
	status, n := http.StatusInternalServerError, notice{Text: l.T("Something went wrong on the server. Its log says more.")}
	var m *mistake
	if errors.As(err, &m) {
		status, n = m.status, notice{m.in(l), m.at, m.troubles}
	} else {
		a.Log.ErrorContext(r.Context(), "page failed", "path", r.URL.Path, "error", err)
	}
	if status >= http.StatusInternalServerError && wantsEvents(r) {
		comeBack(w)
		return
	}
	if r.Header.Get("HX-Request") != "" {
		w.Header().Set("HX-Retarget", "#notice")
		w.Header().Set("HX-Reswap", "innerHTML")
		a.render(w, r, who.Role, status, "notice", "notice", n)
		return
	}
	a.render(w, r, who.Role, status, "error", "page", frame{Title: l.T("Error"), Person: who, Version: a.Version, Content: n})
}

// notice says what did not work, with links to the fields of the form where it is mended.
type notice struct {
	Text, At string
	Troubles []trouble
}

// frame is the data that the template of every whole page gets.
type frame struct {
	Title   string
	Here    string // the part of the navigation that the page belongs to
	Person  person
	Version string
	Content any
}

func (a *admin) show(v *visit, name, title, here string, content any) error {
	a.answer(v, http.StatusOK, name, "page", frame{Title: title, Here: here, Person: v.person, Version: a.Version, Content: content})
	return nil
}

// part shows a piece of a page, for htmx.
func (a *admin) part(v *visit, name, block string, content any) error {
	a.answer(v, http.StatusOK, name, block, content)
	return nil
}

// answer renders a template as the visitor's role may see it.
func (a *admin) answer(v *visit, status int, name, block string, data any) {
	v.status = status
	a.render(v.w, v.r, v.person.Role, status, name, block, data)
}

// draw renders a template in a language, as a role may see it.
func (a *admin) draw(l *words.Language, role signin.Role, name, block string, data any) (string, error) {
	page, err := a.pages.get(l, role, name)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = page.ExecuteTemplate(&b, block, data)
	return b.String(), err
}

func (a *admin) render(w http.ResponseWriter, r *http.Request, role signin.Role, status int, name, block string, data any) {
	drawn, err := a.draw(a.language(r), role, name, block, data)
	if err != nil {
		a.Log.ErrorContext(r.Context(), "page could not be made", "page", name, "error", err)
		http.Error(w, "The page could not be made. The server's log says more.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, drawn)
}
