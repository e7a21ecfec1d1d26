// Package provider signs people in through an OpenID Connect provider: by the authorization code flow with PKCE, state and nonce (OpenID
// Connect Core 1.0 section 3.1, RFC 7636). Between the two halves of a sign-in, only a cookie in the browser holds state, so different
// nodes may handle them.
package provider

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/access/urlguard"
)

// Config sets the provider, and the rules for its users.
type Config struct {
	Issuer   string
	ClientID string
	Secret   string // empty: a public client
	Scopes   []string
	Rules    []signin.Rule
	Redirect string // URL to which the provider redirects people after the sign-in
	Now      func() time.Time
	Targets  urlguard.Targets // to which the issuer may lead besides this machine and private networks
}

// Limits of a sign-in.
const (
	MaxWait      = 10 * time.Minute // limit from the redirect to the provider until the return: people look for their second factor
	answerWithin = 10 * time.Second // limit for each answer of the provider, because a person waits
	maxAnswer    = 1 << 20          // limit for one answer, in bytes: a set of keys has a few KB
	rereadAfter  = time.Hour        // after this time, the provider's metadata is read again
)

// Provider is a client of an OpenID Connect provider. It sends no request before somebody signs in, so a server starts even if the provider
// is unavailable.
type Provider struct {
	cfg   Config
	rules string // fingerprint
	http  *http.Client

	mu   sync.Mutex
	told *oidc.Provider // the provider's metadata
	at   time.Time
}

// New returns a Provider. The operator chooses the issuer, so it may be on this machine or in a private network; link-local addresses,
// where clouds store credentials, are still blocked.
func New(cfg Config) *Provider {
	client := cfg.Targets.And(urlguard.Networks).Client(urlguard.Options{Timeout: answerWithin})
	client.Transport = bounded{client.Transport}
	return &Provider{cfg: cfg, rules: signin.Fingerprint(cfg.Issuer, cfg.ClientID, cfg.Rules), http: client}
}

// Close ends idle connections.
func (p *Provider) Close() error {
	p.http.CloseIdleConnections()
	return nil
}

// Host returns the provider's host, to show to people.
func (p *Provider) Host() string {
	u, err := url.Parse(p.cfg.Issuer)
	if err != nil {
		return p.cfg.Issuer
	}
	return u.Host
}

// RulesOf returns the rules that let people in to an app.
func (p *Provider) RulesOf(app string) (rules []signin.Rule) {
	for _, r := range p.cfg.Rules {
		if r.App == app {
			rules = append(rules, r)
		}
	}
	return rules
}

// Rules returns the fingerprint of the current rules.
func (p *Provider) Rules() string { return p.rules }

// Refusal explains to the person in one sentence why the sign-in is refused.
type Refusal struct {
	Text  string
	Cause error // for the log; nil: the sentence is enough
}

func (r *Refusal) Error() string {
	if r.Cause != nil {
		return r.Text + " " + r.Cause.Error()
	}
	return r.Text
}

func (r *Refusal) Unwrap() error { return r.Cause }

func refuse(cause error, format string, args ...any) error {
	return &Refusal{fmt.Sprintf(format, args...), cause}
}

// away returns the refusal for a provider that does not answer as expected.
func (p *Provider) away(err error) error {
	return refuse(err, "%s cannot be asked just now. Sign in with a key, or try again in a moment.", p.Host())
}

func (p *Provider) client(told *oidc.Provider) *oauth2.Config {
	at := told.Endpoint()
	at.AuthStyle = p.style(told)
	return &oauth2.Config{ClientID: p.cfg.ClientID, ClientSecret: p.cfg.Secret, Endpoint: at, RedirectURL: p.cfg.Redirect, Scopes: p.cfg.Scopes}
}

// style returns how the client authenticates: by HTTP Basic, which providers accept unless their metadata excludes it.
func (p *Provider) style(told *oidc.Provider) oauth2.AuthStyle {
	var more struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	_ = told.Claims(&more) // was read before
	if p.cfg.Secret == "" || len(more.Methods) > 0 && !slices.Contains(more.Methods, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// Begin returns the URL to redirect a person to, and the cookie for the return. app is the app to sign in to; it may be empty.
func (p *Provider) Begin(ctx context.Context, app string) (to, cookie string, err error) {
	told, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}
	t := trip{secret: rand.Text(), begun: p.cfg.Now().Unix(), app: app}
	return p.client(told).AuthCodeURL(t.derive("state"), oidc.Nonce(t.derive("nonce")), oauth2.S256ChallengeOption(t.derive("verifier"))), t.cookie(), nil
}

// Finish completes a sign-in when the person returns. It returns one Person for each app in which they have a role, and the app that they
// chose. It fails with a *Refusal, whose text is for the person.
func (p *Provider) Finish(ctx context.Context, cookie string, q url.Values) (list []signin.Person, app string, err error) {
	t, ok := readTrip(cookie)
	now := p.cfg.Now()
	switch {
	case !ok || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(t.derive("state"))) != 1:
		return nil, "", refuse(nil, "This sign-in was not begun in this browser, or is over already. Begin it anew.")
	case now.Sub(time.Unix(t.begun, 0)).Abs() > MaxWait:
		return nil, "", refuse(nil, "This sign-in has taken more than %d minutes. Begin it anew.", MaxWait/time.Minute)
	case q.Has("iss") && q.Get("iss") != p.cfg.Issuer: // RFC 9207
		return nil, "", refuse(nil, "The answer is from another provider than was asked.")
	case q.Has("error"):
		return nil, "", refuse(nil, "%s did not sign you in: %s", p.Host(), signin.Clean(q.Get("error")+" "+q.Get("error_description")))
	}
	claims, err := p.ask(ctx, t, q.Get("code"))
	if err != nil {
		return nil, "", err
	}
	subject, _ := claims["sub"].(string)
	email, _ := claims["email"].(string)
	if signin.Clean(subject) != subject || subject == "" {
		return nil, "", refuse(nil, "%s did not say who you are.", p.Host())
	}
	apps := signin.Judge(p.cfg.Rules, claims)
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		list = append(list, signin.Person{App: app, Subject: subject, Email: signin.Clean(email), Rules: p.rules, Role: apps[app]})
	}
	return list, t.app, nil
}

// ask exchanges a code for the person's claims at the provider.
func (p *Provider) ask(ctx context.Context, t trip, code string) (map[string]any, error) {
	told, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	token, err := p.client(told).Exchange(oidc.ClientContext(ctx, p.http), code, oauth2.VerifierOption(t.derive("verifier")))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.Response.StatusCode < http.StatusInternalServerError:
		return nil, refuse(fmt.Errorf("exchange the code: %s", exchangeCause(err)), "%s did not accept the answer. Begin the sign-in anew.", p.Host())
	case err != nil:
		return nil, p.away(fmt.Errorf("exchange the code: %s", exchangeCause(err)))
	}
	notTaken := func(cause error) error {
		return refuse(cause, "What %s says of you cannot be trusted. The server's log says more.", p.Host())
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := told.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: p.cfg.Now}).Verify(ctx, raw)
	if err != nil {
		return nil, notTaken(verifyCause(err))
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return nil, notTaken(verifyCause(err))
	}
	party, said := claims["azp"]
	switch {
	case subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(t.derive("nonce"))) != 1:
		return nil, notTaken(errors.New("the nonce is not this sign-in's"))
	case said && party != p.cfg.ClientID, !said && len(id.Audience) > 1:
		return nil, notTaken(errors.New("the token was made for another party"))
	}
	return claims, nil
}

// trip is one sign-in under way. All its unguessable values are derived from one secret in the browser's cookie.
type trip struct {
	secret string
	begun  int64 // seconds
	app    string
}

// derive returns one of the trip's values; as a PKCE verifier, it must have at least 43 characters of this alphabet.
func (t trip) derive(what string) string {
	mac := hmac.New(sha256.New, []byte(t.secret))
	_, _ = fmt.Fprintf(mac, "%s\n%d\n%s", what, t.begun, t.app) // a hash takes everything
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (t trip) cookie() string { return t.secret + "." + strconv.FormatInt(t.begun, 10) + "." + t.app }

// secretChars is the length of rand.Text's result.
const secretChars = 26

func readTrip(cookie string) (t trip, ok bool) {
	secret, rest, _ := strings.Cut(cookie, ".")
	begun, app, found := strings.Cut(rest, ".")
	at, err := strconv.ParseInt(begun, 10, 64)
	return trip{secret, at, app}, found && err == nil && len(secret) == secretChars
}
