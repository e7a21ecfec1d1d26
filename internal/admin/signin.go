package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/access"
)

// How long a person stays signed in, and how many may be.
const (
	longestStay = 12 * time.Hour
	longestIdle = time.Hour
	maxPeople   = 1000
)

// person is who has signed in.
type person struct {
	App string
	Key string // the key's public id
}

// people are those signed in, by the hash of their cookie. They are in memory alone: a restart signs everybody out.
type people struct {
	mu      sync.Mutex
	present map[[sha256.Size]byte]*stay
}

type stay struct {
	person
	until, idle time.Time
}

func (p *people) init() { p.present = make(map[[sha256.Size]byte]*stay) }

// enter signs a person in and returns the cookie's secret.
func (p *people) enter(who person, now time.Time) string {
	secret := rand.Text() // 130 random bits
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.present) >= maxPeople {
		p.makeRoom(now)
	}
	p.present[sha256.Sum256([]byte(secret))] = &stay{who, now.Add(longestStay), now.Add(longestIdle)}
	return secret
}

// makeRoom forgets who has left, or else who was idle longest.
func (p *people) makeRoom(now time.Time) {
	var oldest [sha256.Size]byte
	var at time.Time
	for k, s := range p.present {
		if s.over(now) {
			delete(p.present, k)
		} else if at.IsZero() || s.idle.Before(at) {
			oldest, at = k, s.idle
		}
	}
	if len(p.present) >= maxPeople {
		delete(p.present, oldest)
	}
}

func (s *stay) over(now time.Time) bool { return now.After(s.until) || now.After(s.idle) }

// find says whose cookie it is.
func (p *people) find(secret string, now time.Time) (person, bool) {
	k := sha256.Sum256([]byte(secret))
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.present[k]
	if s == nil {
		return person{}, false
	}
	if s.over(now) {
		delete(p.present, k)
		return person{}, false
	}
	s.idle = now.Add(longestIdle)
	return s.person, true
}

func (p *people) leave(secret string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.present, sha256.Sum256([]byte(secret)))
}

// cookie is the name of the cookie. The prefix makes browsers keep it to this host and to TLS.
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

// person finds who a request is from. A key that has been deleted, or is no admin's any more, opens nothing.
func (a *admin) person(r *http.Request) (person, bool) {
	c, err := r.Cookie(a.cookie())
	if err != nil {
		return person{}, false
	}
	who, ok := a.people.find(c.Value, a.now())
	return who, ok && a.stillAdmin(who)
}

func (a *admin) stillAdmin(who person) bool {
	if a.Dev && who == (person{App: access.DevApp, Key: access.DevKey}) {
		return true // in no list, for it is no secret
	}
	return slices.ContainsFunc(a.Access.Keys(who.App), func(k access.Key) bool {
		return k.ID == who.Key && k.Roles.Has(access.Admin)
	})
}

// front is the first page: the campaigns of who has signed in, for others the way in.
func (a *admin) front(w http.ResponseWriter, r *http.Request) {
	if _, ok := a.person(r); ok {
		http.Redirect(w, r, "/ui/campaigns", http.StatusSeeOther)
		return
	}
	a.door(w, r, http.StatusOK, "")
}

// welcome is what the sign-in page shows.
type welcome struct {
	Problem string
	DevKey  string
}

func (a *admin) door(w http.ResponseWriter, r *http.Request, status int, problem string) {
	content := welcome{Problem: problem}
	if a.Dev {
		content.DevKey = access.DevKey
	}
	a.render(w, r, status, "signin", "page", frame{Title: "Sign in", Version: a.Version, Content: content})
}

func (a *admin) signIn(w http.ResponseWriter, r *http.Request) {
	if addr, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && a.Admit != nil && !a.Admit(addr.Addr()) {
		a.door(w, r, http.StatusTooManyRequests, "Too many attempts. Wait a moment, then try again.")
		return
	}
	key, err := a.Access.Key(r.Context(), r.PostFormValue("key"))
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		a.door(w, r, http.StatusForbidden, "This is not a key of this server.")
		return
	case err != nil:
		a.Log.ErrorContext(r.Context(), "sign-in failed", "error", err)
		a.door(w, r, http.StatusServiceUnavailable, "Keys cannot be checked just now. The server's log says more.")
		return
	case !key.Roles.Has(access.Admin):
		a.door(w, r, http.StatusForbidden, "This key may not manage the app: it lacks the role admin.")
		return
	}
	a.setCookie(w, a.people.enter(person{App: key.App, Key: key.Key}, a.now()), longestStay)
	a.Log.InfoContext(r.Context(), "signed in to the web page", "app", key.App, "key", key.Key)
	http.Redirect(w, r, "/ui/campaigns", http.StatusSeeOther)
}

func (a *admin) signOut(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(a.cookie()); err == nil {
		a.people.leave(c.Value)
	}
	a.setCookie(w, "", -time.Second)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
