package provider

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"godwit.dev/godwit/internal/sending/foreign"
)

// bounded limits the size of answers, and hides the body of unsuccessful answers to GET requests, because the libraries repeat it in their
// errors.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodGet && resp.StatusCode/100 != 2 {
		_ = resp.Body.Close() // it is not read
		return nil, foreign.Own(fmt.Sprintf("it answered %d", resp.StatusCode))
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{http.MaxBytesReader(nil, resp.Body, maxAnswer), resp.Body}
	return resp, nil
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (b bounded) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// discoveryCause returns, for the log, why the provider's metadata cannot be read.
func discoveryCause(err error) string {
	if strings.Contains(err.Error(), "did not match the issuer URL") {
		return "its document names another issuer"
	}
	return foreign.Cause(err)
}

// verifyCauses maps the beginnings of the library's errors about a token to their meanings. The rest of such an error repeats the token.
var verifyCauses = []struct{ begins, means string }{
	{"failed to verify signature: fetching keys", "the provider's keys cannot be had"},
	{"failed to verify signature", "it is not signed with one of the provider's keys"},
	{"oidc: id token issued by a different provider", "it names another issuer"},
	{"oidc: expected audience", "it is for another client"},
	{"oidc: current time", "it is not valid yet: compare the clocks"},
	{"oidc: malformed jwt", "it is no signed token"},
}

func verifyCause(err error) error {
	if errors.As(err, new(*oidc.TokenExpiredError)) {
		return errors.New("verify the token: it has expired: compare the clocks")
	}
	for _, c := range verifyCauses {
		if strings.HasPrefix(err.Error(), c.begins) {
			return errors.New("verify the token: " + c.means)
		}
	}
	return errors.New("verify the token: it cannot be trusted")
}

// oauthErrors are the error codes of token endpoints (RFC 6749, section 5.2).
var oauthErrors = []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope"}

// exchangeCause returns, for the log, why a code was refused. It omits the provider's text beside a known code, which may contain tokens.
func exchangeCause(err error) string {
	var refused *oauth2.RetrieveError
	switch {
	case !errors.As(err, &refused):
		return foreign.Cause(err)
	case slices.Contains(oauthErrors, refused.ErrorCode):
		return fmt.Sprintf("it answered %d %s", refused.Response.StatusCode, refused.ErrorCode)
	}
	return fmt.Sprintf("it answered %d", refused.Response.StatusCode)
}
