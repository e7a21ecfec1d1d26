// Package foreign makes texts from other people's servers safe to show: providers, receivers of webhooks, collectors, databases of apps.
// Such a server may repeat the secret that it was sent, anywhere in its answer. Its texts are never logged. The app that uses the server
// gets a short excerpt without the secrets.
package foreign

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"

	"godwit.dev/godwit/internal/access/urlguard"
)

// maxExcerpt is the most bytes of another server's text that are shown: a sentence or two.
const maxExcerpt = 200

// leastSecret is the fewest bytes of a secret that is removed from an excerpt: shorter ones occur in ordinary words.
const leastSecret = 4

const cut = "…"

// Excerpt is the beginning of a text of another server in one line, without control characters and without secrets, in whatever encoding
// those occur. A text that was cut off may end in the beginning of a secret, which is removed too.
func Excerpt(text string, secrets ...string) string {
	text = strings.ToValidUTF8(text, "?")
	for _, s := range secrets {
		for _, form := range forms(s) {
			text = strings.ReplaceAll(text, form, cut)
			text = withoutBeginning(text, form)
		}
	}
	text = tokens.ReplaceAllString(strings.Join(strings.FieldsFunc(text, unseen), " "), cut)
	if len(text) > maxExcerpt {
		text = strings.ToValidUTF8(text[:maxExcerpt], "") + cut
	}
	return text
}

// tokens matches runs of characters that are hardly words: keys, parts of signed tokens, addresses of devices, and tokens made for one
// request.
var tokens = regexp.MustCompile(`[A-Za-z0-9_+-]{32,}=*`)

// unseen matches spaces, control characters, and characters that change the direction or place of other text.
func unseen(r rune) bool {
	return r <= ' ' || r >= 0x7f && r <= 0xa0 || r == 0x061c || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2060 && r <= 0x206f || r == 0xfeff
}

// forms returns the forms in which a secret is likely to be repeated.
func forms(secret string) []string {
	if len(secret) < leastSecret {
		return nil
	}
	quoted, _ := json.Marshal(secret) // a text
	list := []string{secret, string(quoted[1 : len(quoted)-1]), url.QueryEscape(secret), url.PathEscape(secret), hex.EncodeToString([]byte(secret))}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		list = append(list, e.EncodeToString([]byte(secret)))
	}
	return list
}

// withoutBeginning removes the beginning of a secret from the end of a text.
func withoutBeginning(text, secret string) string {
	for n := min(len(secret)-1, len(text)); n >= leastSecret; n-- {
		if strings.HasSuffix(text, secret[:n]) {
			return text[:len(text)-n] + cut
		}
	}
	return text
}

// Own is an error in our own words about another server. Cause returns it unchanged.
type Own string

func (o Own) Error() string { return string(o) }

// Plain is the text.
func (o Own) Plain() string { return string(o) }

// plain is implemented by errors that can describe themselves without another server's text.
type plain interface{ Plain() string }

// refused is implemented by errors that a Redis returned (rueidis.RedisError).
type refused interface {
	IsLoading() bool
	IsClusterDown() bool
}

// stated is implemented by errors that PostgreSQL returned (pgconn.PgError).
type stated interface{ SQLState() string }

// Cause describes why a request to another server got no readable answer. Errors of net/http contain parts of the other side's text, so
// only their kind is used.
func Cause(err error) string {
	var at *url.Error
	var name *net.DNSError
	var op *net.OpError
	var number syscall.Errno
	var own plain
	var redis refused
	var sql stated
	switch {
	case err == nil:
		return ""
	case errors.As(err, &own):
		return own.Plain()
	case errors.As(err, &redis):
		return redisProblem(redis)
	case errors.As(err, &sql):
		return fmt.Sprintf("the database refused it with the code %.5s (SQLSTATE)", printable(sql.SQLState()))
	case errors.Is(err, urlguard.ErrPrivate):
		return urlguard.ErrPrivate.Error()
	case errors.As(err, &at) && at.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "the request was given up"
	case errors.As(err, &name):
		return fmt.Sprintf("lookup %.255s: %s", printable(name.Name), nameProblem(name))
	case errors.As(err, &number): // the address is the one that was dialled
		if errors.As(err, &op) && op.Op == "dial" && op.Addr != nil {
			return fmt.Sprintf("dial %s: %s", op.Addr, number.Error())
		}
		return number.Error()
	}
	if why := tlsProblem(err); why != "" {
		return why
	}
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return "its answer is too long"
	case errors.Is(err, net.ErrClosed):
		return "the connection was closed"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it ended the connection"
	case errors.As(err, &op):
		return "the connection failed"
	}
	return "its answer cannot be read"
}

func redisProblem(e refused) string {
	switch {
	case e.IsLoading():
		return "Redis is still reading its data"
	case e.IsClusterDown():
		return "the cluster of Redis is down"
	}
	return "Redis refused what it was asked"
}

func nameProblem(e *net.DNSError) string {
	switch {
	case e.IsNotFound:
		return "no such host"
	case e.IsTimeout:
		return "the name server did not answer in time"
	}
	return "the name server failed"
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unseen(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// tlsProblem describes errors of a handshake. The other side chooses the texts in its certificate, so they are omitted.
func tlsProblem(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	switch {
	case errors.As(err, &unknown):
		return "its certificate is signed by an authority that is not known here"
	case errors.As(err, &host):
		return "its certificate is for other names"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired or is not valid yet"
	case errors.As(err, &invalid), errors.As(err, new(*tls.CertificateVerificationError)):
		return "its certificate is not valid"
	case errors.As(err, &alert):
		return "it refused the TLS handshake: " + alert.Error()
	case errors.As(err, new(tls.RecordHeaderError)), errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS there"
	}
	return ""
}
