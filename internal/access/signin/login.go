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

// Limits of logins: how long a person stays signed in, and how many logins an app has.
const (
	LongestLogin = 12 * time.Hour
	LongestIdle  = time.Hour
	MaxLogins    = 1000 // of one app; a further login ends the one that was seen longest ago
)

// seenGrain is the precision of a login's last-seen time: a page that updates itself makes a request every second, but must not cause a
// write every second.
const seenGrain = time.Minute

// Person is a person who has signed in with a key, or as a user of an OpenID Connect provider.
type Person struct {
	App     string // empty: an operator
	Key     string // the key's public id; empty: the person signed in through the provider
	Subject string // the person's id at the provider; empty with a key
	Email   string // for people to read; may be empty
	Rules   string // fingerprint of the rules that gave a provider's user this role
	Role    Role
}

// Name returns the person's name for lists and logs.
func (p Person) Name() string {
	switch {
	case p.Key != "":
		return p.Key
	case p.Email != "":
		return p.Email
	}
	return p.Subject
}

// Same reports whether both are the same person: they used the same key, or are the same user of the provider.
func (p Person) Same(other Person) bool {
	return p.App == other.App && p.Key == other.Key && p.Subject == other.Subject
}

// Login is the period in which one browser is signed in.
type Login struct {
	ID string // public
	Person
	Since, Seen time.Time // Seen is accurate to about a minute
	Address     string    // from where it began
	Browser     string    // as it calls itself
}

// Over reports whether a login has expired.
func (s *Login) Over(now time.Time) bool {
	return !now.Before(s.Since.Add(LongestLogin)) || !now.Before(s.Seen.Add(LongestIdle))
}

// Hash is the stored form of the secret in a login's cookie.
type Hash = [sha256.Size]byte

// ErrNoLogin reports that no login has this secret, or that the login has ended.
var ErrNoLogin = errors.New("not signed in")

// Bounds select the logins that are deleted when another one is added.
type Bounds struct {
	Since, Seen time.Time // logins that began no later than Since, or were last seen no later than Seen
	Most        int       // maximum logins of the app, including the new one
}

// LoginStore stores logins; servers that share it share the logins.
type LoginStore interface {
	// AddLogin stores a login. It fails with access.ErrUnknownApp if the app does not exist.
	AddLogin(ctx context.Context, hash Hash, s Login, b Bounds) error
	// Login returns a login. It fails with ErrNoLogin if there is none.
	Login(ctx context.Context, hash Hash) (Login, error)
	// SeeLogin updates when a login was last seen.
	SeeLogin(ctx context.Context, hash Hash, at time.Time) error
	// EndLogins deletes logins of this app only, and returns their number.
	EndLogins(ctx context.Context, app string, ids []string) (int, error)
	// Logins lists an app's logins, most recently seen first.
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

// NewLogins returns Logins that use a store.
func NewLogins(store LoginStore, now func() time.Time) *Logins { return &Logins{store, now} }

// Enter signs a person in and returns the cookie's secret. It truncates and cleans the address and the browser's name.
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

// Find returns the login with a secret. It fails with ErrNoLogin if there is none, or it has ended.
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
		return Login{}, ErrNoLogin // adding the next login deletes it
	}
	return login, nil
}

// Remains reports whether the person of a page that updates itself is still signed in. An open page does not count as activity: it does not
// prolong the login.
func (s *Logins) Remains(ctx context.Context, secret string) bool {
	_, err := s.look(ctx, sha256.Sum256([]byte(secret)), s.now())
	return err == nil
}

// Of lists an app's logins, most recently seen first.
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

// End ends logins, and returns their number.
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

// maxText limits the stored part of a text from a browser or provider, in bytes.
const maxText = 200

// Clean returns the part of an external text that can be stored and shown: at most 200 bytes of printable characters.
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
