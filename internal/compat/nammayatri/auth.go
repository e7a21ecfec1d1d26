package nammayatri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/sending/foreign"
)

// Origin is the server that verifies the tokens of one kind of clients.
type Origin struct {
	URL    string
	Key    string        // shown to it; never logged
	Expiry time.Duration // how long its answers are stored
}

// Where tokens come from.
const (
	DriverApp       = "DriverApp" // unless a client says otherwise
	RiderApp        = "RiderApp"
	DriverDashboard = "DriverDashboard"
	RiderDashboard  = "RiderDashboard"
)

// TokenOrigins lists them.
func TokenOrigins() []string { return []string{DriverApp, RiderApp, DriverDashboard, RiderDashboard} }

// originOf returns the origin that a client states for its token.
func originOf(md func(string) string) string {
	switch o := md("token-origin"); o {
	case RiderApp, DriverDashboard, RiderDashboard:
		return o
	}
	return DriverApp
}

// Limits of asking.
const (
	lookupPatience = time.Second      // of a token in Redis
	authPatience   = 5 * time.Second  // of one question
	authBytes      = 64 << 10         // of an answer
	authConns      = 64               // to one server, kept open
	authTold       = 10 * time.Second // interval between log lines about tokens that cannot be verified
)

// auth finds the client of a token: in Redis, where this service and the one it replaces store tokens, or at the server that issued the
// token. It is a session.Verifier.
type auth struct {
	cfg  *Config
	now  func() time.Time
	http *http.Client
	log  *slog.Logger
	told rate.Sometimes
}

func newAuth(cfg *Config, now func() time.Time) *auth {
	return &auth{cfg: cfg, now: now, http: internalClient(authPatience, authConns), log: cfg.Log, told: rate.Sometimes{Interval: authTold}}
}

// internalClient returns a client for servers in the operator's own network. It follows no redirects, because a redirect would send the
// token to another server.
func internalClient(patience time.Duration, conns int) *http.Client {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: conns, MaxConnsPerHost: conns, IdleConnTimeout: time.Minute,
		ForceAttemptHTTP2: true,
	}
	return &http.Client{
		Transport: t, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (a *auth) close() { a.http.CloseIdleConnections() }

// Known verifies with the tokens stored in Redis. If it does not find the token, even because Redis is unavailable, its error requires a
// request to the internal server.
func (a *auth) Known(c access.Claim) (access.Client, error) {
	if a.cfg.Dev {
		return a.client(c, c.Token), nil
	}
	id, ok := a.kept(context.Background(), c.Token)
	if !ok {
		return access.Client{}, &access.AskError{App: App}
	}
	return a.client(c, id), nil
}

// kept looks a token up in Redis.
func (a *auth) kept(ctx context.Context, token string) (client string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	client, ok, err := a.cfg.Store.Token(ctx, token)
	if err != nil {
		a.log.DebugContext(ctx, "a token cannot be looked up in Redis; its server is asked", "error", err)
		return "", false
	}
	return client, ok
}

// Client verifies at the server of the token's origin.
func (a *auth) Client(ctx context.Context, c access.Claim) (access.Client, error) {
	id, err := a.ask(ctx, c.Origin, c.Token)
	if err != nil {
		return access.Client{}, err
	}
	return a.client(c, id), nil
}

// client returns a verified client, valid for as long as a stream may last.
func (a *auth) client(c access.Claim, id string) access.Client {
	out := access.Client{App: App, Recipient: a.cfg.Recipient(id), Device: c.Device}
	if a.cfg.Timeout > 0 {
		out.Expires = a.now().Add(a.cfg.Timeout)
	}
	return out
}

// ask verifies a token at its origin's server and stores the answer.
func (a *auth) ask(ctx context.Context, origin, token string) (client string, err error) {
	o, ok := a.cfg.Origins[origin]
	if !ok {
		return "", fmt.Errorf("%w: no authentication is set up for tokens of %s", access.ErrUnauthenticated, origin)
	}
	ctx, cancel := context.WithTimeout(ctx, authPatience)
	defer cancel()
	if client, err = a.fetch(ctx, o, token); err != nil {
		if errors.Is(err, access.ErrUnavailable) {
			a.told.Do(func() {
				a.log.WarnContext(ctx, "tokens cannot be checked: clients whose token is not kept in Redis are refused", "origin", origin, "error", err)
			})
		}
		return "", err
	}
	if err := a.cfg.Store.KeepToken(ctx, token, client, o.Expiry); err != nil {
		a.log.DebugContext(ctx, "whose a token is cannot be kept in Redis; it will be asked again", "error", err)
	}
	return client, nil
}

func (a *auth) fetch(ctx context.Context, o Origin, token string) (client string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL, nil)
	if err != nil {
		return "", fmt.Errorf("%w: its URL is not valid", access.ErrUnavailable)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Token", token)
	req.Header.Set("Api-Key", o.Key)
	res, err := a.http.Do(req)
	if err != nil {
		return "", fmt.Errorf("%w: ask about a token: %s", access.ErrUnavailable, foreign.Cause(err))
	}
	defer func() { _ = res.Body.Close() }() // it was read
	body, err := io.ReadAll(io.LimitReader(res.Body, authBytes))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: read the answer about a token: %s", access.ErrUnavailable, foreign.Cause(err))
	case res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests:
		return "", fmt.Errorf("%w: asked about a token, it answered %d", access.ErrUnavailable, res.StatusCode)
	case res.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%w: asked about a token, its server answered %d", access.ErrUnauthenticated, res.StatusCode)
	}
	var answer struct {
		Driver string `json:"driverId"`
		Rider  string `json:"riderId"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("%w: the answer about a token is not JSON with a driverId", access.ErrUnavailable)
	}
	if answer.Driver == "" {
		answer.Driver = answer.Rider
	}
	if answer.Driver == "" {
		return "", fmt.Errorf("%w: the answer about a token has no driverId", access.ErrUnavailable)
	}
	return answer.Driver, nil
}

// admit verifies the client of a call that is not a session. The error is a gRPC status.
func (a *auth) admit(ctx context.Context, md func(string) string) (token string, err error) {
	token = md("token")
	if token == "" {
		return "", errNoToken
	}
	if a.cfg.Dev {
		return token, nil
	}
	if _, ok := a.kept(ctx, token); ok {
		return token, nil
	}
	switch _, err := a.ask(ctx, originOf(md), token); {
	case err == nil:
		return token, nil
	case errors.Is(err, access.ErrUnavailable):
		return "", status.Error(codes.Internal, refusals["auth_unavailable"])
	default:
		return "", status.Error(codes.Internal, refusals["unauthenticated"])
	}
}
