package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// How long a person stays signed in, and how many people of an app may be.
const (
	LongestLogin = 12 * time.Hour
	LongestIdle  = time.Hour
	MaxLogins    = 1000 // of an app; the next one ends the login that was seen longest ago
)

// seenGrain is the precision of a person's last-seen time: a page that updates itself makes a request every second, and
// must not write as often.
const seenGrain = time.Minute

// Person is a person who has signed in: the holder of a key, or a user of an OpenID Connect provider.
type Person struct {
	App     string
	Key     string // the key's public id; empty: the provider vouches
	Subject string // the provider's id of the person; empty with a key
	Email   string // for people to read; may be empty
	Rules   string // the rules that gave a provider's user this role, as a fingerprint
	Role    Role
}

// Name is the person's name in lists and logs.
func (p Person) Name() string {
	switch {
	case p.Key != "":
		return p.Key
	case p.Email != "":
		return p.Email
	}
	return p.Subject
}

// Same reports whether both came in as the same: by one key, or as one of the provider's people.
func (p Person) Same(other Person) bool {
	return p.App == other.App && p.Key == other.Key && p.Subject == other.Subject
}

// Login is the time in which one browser is signed in.
type Login struct {
	ID string // public
	Person
	Since, Seen time.Time // last seen within a minute or so
	Address     string    // from where it began
	Browser     string    // as it calls itself
}

// Over reports whether a login has ended by itself.
func (s *Login) Over(now time.Time) bool {
	return !now.Before(s.Since.Add(LongestLogin)) || !now.Before(s.Seen.Add(LongestIdle))
}

// Hash is how the secret of a login's cookie is kept.
type Hash = [sha256.Size]byte

// ErrNoLogin says that the secret belongs to no login, or to one that has ended.
var ErrNoLogin = errors.New("not signed in")

// Bounds select the logins that are deleted when another one is added.
type Bounds struct {
	Since, Seen time.Time // begun, or last seen, no later than this
	Most        int       // of the app, with the new one
}

// LoginStore keeps logins, for every server that shares it.
type LoginStore interface {
	// AddLogin keeps a login. It fails with access.ErrUnknownApp where the app is missing.
	AddLogin(ctx context.Context, hash Hash, s Login, b Bounds) error
	// Login fails with ErrNoLogin where there is none.
	Login(ctx context.Context, hash Hash) (Login, error)
	// SeeLogin sets when a login was last seen.
	SeeLogin(ctx context.Context, hash Hash, at time.Time) error
	// EndLogins deletes logins of this app and no other's, and returns how many there were.
	EndLogins(ctx context.Context, app string, ids []string) (int, error)
	// Logins lists an app's logins, last seen first.
	Logins(ctx context.Context, app string, most int) ([]Login, error)
}

// Store keeps the people's logins.
type Store interface {
	LoginStore
}

// Logins lets people in.
type Logins struct {
	store LoginStore
	now   func() time.Time
}

// NewLogins keeps logins in a store.
func NewLogins(store LoginStore, now func() time.Time) *Logins { return &Logins{store, now} }

// Enter signs a person in and returns the cookie's secret. Enter cuts and cleans the address and the browser's name.
func (s *Logins) Enter(ctx context.Context, who Person, address, browser string) (secret string, err error) {
	secret = rand.Text() // 130 random bits
	now := s.now().UTC().Truncate(time.Millisecond)
	login := Login{ID: rand.Text(), Person: who, Since: now, Seen: now, Address: Clean(address), Browser: Clean(browser)}
	err = s.store.AddLogin(ctx, sha256.Sum256([]byte(secret)), login, Bounds{Since: now.Add(-LongestLogin), Seen: now.Add(-LongestIdle), Most: MaxLogins})
	if err != nil {
		return "", fmt.Errorf("sign %s in to app %s: %w", who.Name(), who.App, err)
	}
	return secret, nil
}

// Find returns the login with a secret; ErrNoLogin: there is none, or it has ended.
func (s *Logins) Find(ctx context.Context, secret string) (Login, error) {
	hash, now := sha256.Sum256([]byte(secret)), s.now()
	login, err := s.look(ctx, hash, now)
	if err != nil {
		return Login{}, err
	}
	if now.Sub(login.Seen) >= seenGrain {
		if err := s.store.SeeLogin(ctx, hash, now); err != nil {
			return Login{}, fmt.Errorf("note that %s is there: %w", login.Name(), err)
		}
	}
	return login, nil
}

func (s *Logins) look(ctx context.Context, hash [sha256.Size]byte, now time.Time) (Login, error) {
	login, err := s.store.Login(ctx, hash)
	switch {
	case errors.Is(err, ErrNoLogin):
		return Login{}, err
	case err != nil:
		return Login{}, fmt.Errorf("look up who is signed in: %w", err)
	case login.Over(now):
		return Login{}, ErrNoLogin // it is deleted when the next login is added
	}
	return login, nil
}

// Remains reports whether a person with a self-updating page open is still signed in. An open page is no activity: it does not
// prolong the login.
func (s *Logins) Remains(ctx context.Context, secret string) bool {
	_, err := s.look(ctx, sha256.Sum256([]byte(secret)), s.now())
	return err == nil
}

// Of lists the logins of an app, last seen first.
func (s *Logins) Of(ctx context.Context, app string) (list []Login, err error) {
	all, err := s.store.Logins(ctx, app, MaxLogins)
	if err != nil {
		return nil, fmt.Errorf("list who is signed in to app %s: %w", app, err)
	}
	now := s.now()
	for i := range all {
		if !all[i].Over(now) {
			list = append(list, all[i])
		}
	}
	return list, nil
}

// End ends logins, and returns how many there were.
func (s *Logins) End(ctx context.Context, app string, ids ...string) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	n, err := s.store.EndLogins(ctx, app, ids)
	if err != nil {
		return 0, fmt.Errorf("sign out of app %s: %w", app, err)
	}
	return n, nil
}

// maxText limits the part of a browser's or provider's text that is kept.
const maxText = 200

// Clean makes a text from outside one that can be kept and shown: at most 200 bytes of printable characters.
func Clean(s string) string {
	s = s[:min(len(s), 4*maxText)]
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.TrimSpace(s)
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "")
}
