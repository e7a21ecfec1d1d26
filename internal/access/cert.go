package access

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
)

const certScheme = "godwit://"

// CertURI returns the URI that names a client in its certificate (godwit://app/group/recipient), or "". It ignores certificates that TLS
// has not verified.
func CertURI(state *tls.ConnectionState) string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	for _, u := range state.VerifiedChains[0][0].URIs {
		if s := u.String(); strings.HasPrefix(s, certScheme) {
			return s
		}
	}
	return ""
}

// parseCertURI parses godwit://app/group/recipient without net/url, which would take parts of some names for a port.
func parseCertURI(uri string) (identity, error) {
	rest, ok := strings.CutPrefix(uri, certScheme)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return identity{}, fmt.Errorf("%w: certificate URI is not godwit://app/group/recipient", ErrUnauthenticated)
	}
	for i, field := range []string{"app", "group", "recipient"} {
		part, err := url.PathUnescape(parts[i])
		if err == nil {
			err = notification.CheckName(field, part)
		}
		if err != nil {
			return identity{}, fmt.Errorf("%w: certificate URI has a bad %s", ErrUnauthenticated, field)
		}
		parts[i] = part
	}
	return identity{App: parts[0], Group: parts[1], Recipient: parts[2]}, nil
}
