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
	"godwit.dev/godwit/internal/people"
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
	// Role is what the key allowed when the person signed in.
	Role people.Role
}

// stays are those signed in, by the hash of their cookie. They are in memory alone: a restart signs everybody out.
type stays struct {
	mu      sync.Mutex
	present map[[sha256.Size]byte]*stay
}

type stay struct {
	person
	until, idle time.Time
}

func (p *stays) init() { p.present = make(map[[sha256.Size]byte]*stay) }

// enter signs a person in and returns the cookie's secret.
func (p *stays) enter(who person, now time.Time) string {
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
func (p *stays) makeRoom(now time.Time) {
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
func (p *stays) find(secret string, now time.Time) (person, bool) {
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

func (p *stays) leave(secret string) {
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

// person finds who a request is from. A key that has been deleted, or has other roles now, opens nothing.
func (a *admin) person(r *http.Request) (person, bool) {
	c, err := r.Cookie(a.cookie())
	if err != nil {
		return person{}, false
	}
	who, ok := a.stays.find(c.Value, a.now())
	return who, ok && a.holds(who)
}

// holds reports whether a person's key still allows what it did when they signed in.
func (a *admin) holds(who person) bool {
	if a.Dev && who.App == access.DevApp && who.Key == access.DevKey {
		return true // in no list, for it is no secret
	}
	return slices.ContainsFunc(a.Access.Keys(who.App), func(k access.Key) bool {
		role, _ := people.RoleOf(k.Roles)
		return k.ID == who.Key && role == who.Role
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
	a.render(w, r, 0, status, "signin", "page", frame{Title: "Sign in", Version: a.Version, Content: content})
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
	}
	role, ok := people.RoleOf(key.Roles)
	if !ok {
		a.door(w, r, http.StatusForbidden, "This key opens nothing here: its only role is "+key.Roles.String()+". A person needs a key with the role read, publish or admin.")
		return
	}
	a.setCookie(w, a.stays.enter(person{App: key.App, Key: key.Key, Role: role}, a.now()), longestStay)
	a.Log.InfoContext(r.Context(), "signed in to the web page", "app", key.App, "key", key.Key, "role", role.String())
	http.Redirect(w, r, "/ui/campaigns", http.StatusSeeOther)
}

func (a *admin) signOut(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(a.cookie()); err == nil {
		a.stays.leave(c.Value)
	}
	a.setCookie(w, "", -time.Second)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
