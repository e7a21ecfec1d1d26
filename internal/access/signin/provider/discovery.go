package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/foreign"
)

// CheckIssuer returns an error if an issuer's URL is invalid. Secrets are sent to it, so it must be https, except on
// this machine and at targets that the operator names.
func CheckIssuer(issuer string, targets urlguard.Targets) error {
	u, err := url.Parse(issuer)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || strings.ContainsAny(issuer, "?#"): // no query or fragment, because the discovery document's path is appended
		return errors.New("is not an issuer's URL, like https://login.example.org/realms/staff")
	case !private(u) && (u.Scheme != "http" || !targets.Names(u)):
		return errors.New("needs https: secrets travel there")
	}
	return targets.And(urlguard.Networks).CheckHost(u)
}

// private reports whether requests to a URL cannot be read on the way.
func private(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname())
}

func loopback(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// discover reads the provider's metadata and caches it for an hour.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told != nil && p.cfg.Now().Sub(p.at) < rereadAfter {
		return p.told, nil
	}
	told, err := oidc.NewProvider(oidc.ClientContext(ctx, p.http), p.cfg.Issuer)
	if err == nil {
		err = checkEndpoints(told)
	}
	if err != nil {
		return nil, p.away(fmt.Errorf("discover %s: %s", p.cfg.Issuer, discoveryCause(err)))
	}
	p.told, p.at = told, p.cfg.Now()
	return told, nil
}

// checkEndpoints rejects a provider whose endpoints would transmit secrets or keys unencrypted.
func checkEndpoints(told *oidc.Provider) error {
	var more struct {
		Keys string `json:"jwks_uri"`
	}
	if err := told.Claims(&more); err != nil {
		return foreign.Own("its document cannot be read")
	}
	e := told.Endpoint()
	for _, at := range []struct{ name, url string }{{"authorization_endpoint", e.AuthURL}, {"token_endpoint", e.TokenURL}, {"jwks_uri", more.Keys}} {
		if u, err := url.Parse(at.url); err != nil || u.Host == "" || !private(u) {
			return foreign.Own("its " + at.name + " needs https")
		}
	}
	return nil
}
