// Package admin is the web page for people: campaigns with their progress, composing one, the audience. Pages are
// rendered on the server; the embedded htmx swaps parts. Nothing is loaded from elsewhere and no inline script runs.
package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/access/signin/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/watch"
)

// Access verifies the API keys that people sign in with.
type Access interface {
	Key(ctx context.Context, secret string) (access.Principal, error)
	// Keys lists an app's keys: a person whose key was deleted, or has other roles now, is signed out.
	Keys(app string) []access.Key
}

// SignInParts are what the pages know people by.
type SignInParts struct {
	Access   Access
	Logins   *signin.Logins
	Provider *provider.Provider // vouches for people; nil: they sign in with keys alone
	// Admit limits attempts to sign in by address; nil: no limit.
	Admit func(netip.Addr) bool
	Dev   bool // the sign-in page names the development key
	TLS   bool // cookies are for encrypted connections alone
	// Origin is that of these pages where people reach them, whatever a proxy makes of Host; empty: Host tells.
	Origin string
}

// CampaignParts are what the pages of campaigns stand on.
type CampaignParts struct {
	Campaigns Campaigns
	Audience  Audience
	Templates Templates
	// Ready reports whether a channel of an app can send.
	Ready func(ctx context.Context, app string, ch push.Channel) bool
}

// RecipientParts are what the pages of single recipients, notifications and objects stand on.
type RecipientParts struct {
	Recipients Recipients
	Mailbox    Mailbox
	Timelines  Timelines
	Presence   Presence
	Objects    Objects
	Publisher  Publisher
	// PublishLimit takes n publishes of a key from its budget; wait > 0: refused, come back after it. Nil: no limit.
	PublishLimit func(key string, n int) (wait time.Duration)
}

// IntegrationParts are what connects an app with services outside, and the keys of its own programs.
type IntegrationParts struct {
	Keys     Keys
	Channels Channels
	Hooks    Hooks
	Sinks    Sinks
	Sources  Sources
}

// Config are the parts of the pages.
type Config struct {
	SignInParts
	CampaignParts
	RecipientParts
	IntegrationParts
	Pages []module.Page // of modules
	Audit *audit.Log    // remembers what people do; nil: nothing does
	// Watch remembers the server's figures, and what it has refused and warned of. Nil: nobody looks.
	Watch *watch.Server
	// Draining, when closed, ends pages that go on, so that the server can stop.
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
	if a.Provider != nil {
		mux.HandleFunc("GET /ui/oidc/start", a.goToProvider)
		mux.HandleFunc("GET /ui/oidc/callback", a.comeBack)
	}
	mux.HandleFunc("GET /ui/assets/{version}/{name}", serveAsset)
	own := a.routes()
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

// visit is one request of a person who signed in.
type visit struct {
	w      http.ResponseWriter
	r      *http.Request
	person person
	login  string // the id of the login that this is part of
	status int    // of the answer; 0: none yet
	again  bool   // a form is shown again: nothing was done
	made   string // what was made, where the path does not name it
}

type page func(v *visit) error

// policy allows what the pages need: our own files, pictures that a campaign names, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' https: data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with none, browsers would not say where a form comes from
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(time.Now().Add(patience))      // a writer without deadlines is a test's
		_ = rc.SetWriteDeadline(time.Now().Add(2 * patience)) // the same
		most := int64(maxForm)
		if r.URL.Path == importPath {
			most = maxImport
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		next.ServeHTTP(w, r)
	})
}

// maxForm bounds a posted form: the longest campaign is far below it.
const maxForm = 256 << 10

// patience bounds how long a page may take to make.
const patience = 15 * time.Second

// signedIn runs a page for people who have signed in, and sends others to the front page.
func (a *admin) signedIn(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, err := a.login(r)
		if errors.Is(err, signin.ErrNoLogin) {
			if r.Header.Get("HX-Request") != "" {
				w.Header().Set("HX-Redirect", "/")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		if err != nil {
			a.Log.ErrorContext(r.Context(), "who is signed in to the web page could not be read", "error", err)
			a.fail(w, r, person{}, &mistake{http.StatusServiceUnavailable, cannotCheck})
			return
		}
		ctx := r.Context()
		if !strings.HasSuffix(r.Pattern, endless) {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, patience, fmt.Errorf("the page was not ready in %s", patience))
			defer cancel()
		}
		if err := p(&visit{w: w, r: r.WithContext(ctx), person: s.Person, login: s.ID}); err != nil {
			a.fail(w, r, s.Person, err)
		}
	}
}

// mistake is an error that a person can mend.
type mistake struct {
	status int
	text   string
}

func (m *mistake) Error() string { return m.text }

// fail shows an error: what a person can mend in their words, anything else without details, which the log has.
func (a *admin) fail(w http.ResponseWriter, r *http.Request, who person, err error) {
	status, text := http.StatusInternalServerError, "Something went wrong on the server. Its log says more."
	var m *mistake
	if errors.As(err, &m) {
		status, text = m.status, m.text
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
		a.render(w, r, who.Role, status, "notice", "notice", text)
		return
	}
	a.render(w, r, who.Role, status, "error", "page", frame{Title: "Error", Person: who, Version: a.Version, Content: text})
}

// frame is what every whole page is given.
type frame struct {
	Title   string
	Here    string // which part of the navigation this is
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

// answer renders a template as who visits may see it.
func (a *admin) answer(v *visit, status int, name, block string, data any) {
	v.status = status
	a.render(v.w, v.r, v.person.Role, status, name, block, data)
}

// draw renders a template as a role may see it.
func (a *admin) draw(role signin.Role, name, block string, data any) (string, error) {
	page, err := a.pages.get(role, name)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = page.ExecuteTemplate(&b, block, data)
	return b.String(), err
}

func (a *admin) render(w http.ResponseWriter, r *http.Request, role signin.Role, status int, name, block string, data any) {
	drawn, err := a.draw(role, name, block, data)
	if err != nil {
		a.Log.ErrorContext(r.Context(), "page could not be made", "page", name, "error", err)
		http.Error(w, "The page could not be made. The server's log says more.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, drawn)
}
