package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"
	"golang.org/x/sync/singleflight"
)

const (
	introspectBytes = 64 << 10
	positiveFor     = 60 * time.Second // caching time of a positive answer: a withdrawn token may open sessions that long
	negativeFor     = 10 * time.Second // caching time of a negative answer, so that a retrying client does not burden the app's server
	positiveEntries = 16 << 10         // some 20 MB with ordinary claims
	negativeEntries = 4 << 10          // separate limit, so that invented tokens do not displace valid ones
)

// introspector verifies opaque tokens with an app's own server (RFC 7662) and caches the answers.
type introspector struct {
	asks   *fetcher
	flight singleflight.Group
	good   *bounded[[sha256.Size]byte, *claims]
	bad    *bounded[[sha256.Size]byte, struct{}]
}

func newIntrospector(f *fetcher) *introspector {
	return &introspector{
		asks: f,
		good: newBounded[[sha256.Size]byte, *claims](positiveEntries),
		bad:  newBounded[[sha256.Size]byte, struct{}](negativeEntries),
	}
}

var errInactive = fmt.Errorf("%w: the app's server does not know the token", ErrUnauthenticated)

// verify verifies a token; it sends a request only if ask is true. If the answer lacks exp, the session has no expiry.
func (i *introspector) verify(life context.Context, app *App, token string, now time.Time, ask bool) (identity, error) {
	key := sha256.Sum256([]byte(strings.Join([]string{app.Name, app.IntrospectURL, token}, "\x00")))
	if c, ok := i.good.get(app.Name, key, now); ok {
		return c.identity(app, now)
	}
	if _, ok := i.bad.get(app.Name, key, now); ok {
		return identity{}, errInactive
	}
	if !ask {
		return identity{}, &AskError{app.Name}
	}
	v, err, _ := i.flight.Do(string(key[:]), func() (any, error) {
		c, err := i.ask(life, app, token)
		answered := time.Now()
		switch {
		case err == nil:
			until := answered.Add(positiveFor)
			if c.Expiry != nil && c.Expiry.Time().Before(until) {
				until = c.Expiry.Time()
			}
			i.good.put(app.Name, key, c, until, answered)
		case errors.Is(err, errInactive):
			i.bad.put(app.Name, key, struct{}{}, answered.Add(negativeFor), answered)
		}
		return c, err
	})
	if err != nil {
		return identity{}, err
	}
	return v.(*claims).identity(app, now)
}

func (i *introspector) ask(ctx context.Context, app *App, token string) (*claims, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, app.IntrospectURL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("%w: introspection URL of app %s is not valid", ErrUnavailable, app.Name)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if app.IntrospectID != "" { // both are percent-encoded: RFC 6749 section 2.3.1
		req.SetBasicAuth(url.QueryEscape(app.IntrospectID), url.QueryEscape(string(app.IntrospectSecret)))
	}
	body, err := i.asks.fetch(ctx, app.Name, req, introspectBytes)
	if err != nil {
		return nil, fmt.Errorf("%w: introspect token of app %s: %w", ErrUnavailable, app.Name, err)
	}
	var answer struct {
		Active bool `json:"active"`
		claims
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: introspect token of app %s: the answer cannot be read", ErrUnavailable, app.Name)
	}
	if !answer.Active {
		return nil, errInactive
	}
	return &answer.claims, nil
}
