package jetstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nkeys"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
)

// Limits of the fields.
const (
	maxURLs     = 16       // any few servers of a cluster tell of the others
	maxURL      = 2048     // bytes
	maxName     = 128      // bytes of a stream's or consumer's name; NATS makes folders of them
	maxSubjects = 64       // each is compared with each message by NATS
	maxSubject  = 512      // bytes
	maxSecret   = 16 << 10 // bytes: a user's JWT with many rights has some thousands
	maxPEM      = 64 << 10 // bytes
	maxTries    = 1_000_000
)

// Check implements source.Kind. Its errors never show a URL, which may contain a password.
func (Kind) Check(v setting.Values) error {
	if problem := checkURLs(v.Text(FieldURL)); problem != "" {
		return notification.BadField(FieldURL, "%s", problem)
	}
	if v.Text(FieldStream) == "" {
		return notification.BadField(FieldStream, "is required: the name of the stream to read")
	}
	for _, field := range []string{FieldStream, FieldConsumer} {
		if name := v.Text(field); name != "" && !named().MatchString(name) {
			return notification.BadField(field, "must have 1 to %d letters, digits, - and _", maxName)
		}
	}
	if err := checkSubjects(v.List(FieldSubjects)); err != nil {
		return err
	}
	for _, field := range []string{FieldDomain, FieldInbox} {
		if name := v.Text(field); name != "" && !prefix().MatchString(name) {
			return notification.BadField(field, "must have 1 to %d letters, digits, -, _ and dots between them", maxName)
		}
	}
	if from := v.Text(FieldFrom); from != "" && from != fromAll && from != fromNew {
		return notification.BadField(FieldFrom, "must be %s or %s", fromAll, fromNew)
	}
	if _, err := triesOf(v); err != nil {
		return err
	}
	return checkSecrets(v)
}

var (
	// named matches names of streams and consumers, which are tokens of subjects and names of folders.
	named  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`) })
	prefix = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}$`) })
)

// checkURLs returns what is wrong with the URLs of a NATS.
func checkURLs(raw string) string {
	if raw == "" {
		return "is required: where NATS is, like " + example
	}
	urls := strings.Split(raw, ",")
	if len(urls) > maxURLs || len(raw) > maxURL {
		return "has more than " + strconv.Itoa(maxURLs) + " servers or " + strconv.Itoa(maxURL) + " bytes; any few servers of a cluster tell of the others"
	}
	for _, one := range urls {
		u, err := url.Parse(one)
		switch {
		case err != nil, u.Scheme != "nats" && u.Scheme != "tls", u.Hostname() == "", strings.Trim(u.Path, "/") != "", u.RawQuery != "", u.Fragment != "":
			return "is not a URL like " + example
		case u.User != nil:
			return "must not contain a user or token: they have fields of their own"
		}
		if port := u.Port(); port != "" {
			if _, err := strconv.ParseUint(port, 10, 16); err != nil {
				return "has no valid port"
			}
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil && addr.IsUnspecified() {
			return "names no host"
		}
	}
	return ""
}

func checkSubjects(subjects []string) error {
	if len(subjects) > maxSubjects {
		return notification.BadField(FieldSubjects, "has %d subjects; at most %d are allowed, and a wildcard may stand for many", len(subjects), maxSubjects)
	}
	for _, s := range subjects {
		tokens := strings.Split(s, ".")
		for i, token := range tokens {
			wild := strings.ContainsAny(token, "*>")
			if token == "" || len(s) > maxSubject || strings.ContainsAny(token, " \t\r\n\x00") || wild && token != "*" && (token != ">" || i < len(tokens)-1) {
				return notification.BadField(FieldSubjects, "%.100q is no subject like orders.* or orders.>", s)
			}
		}
	}
	return nil
}

// triesOf returns after how many deliveries a message goes to quarantine; 0: never.
func triesOf(v setting.Values) (int, error) {
	text := v.Text(FieldTries)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxTries {
		return 0, notification.BadField(FieldTries, "must be a number from 1 to %d, or empty: then messages wait until their mailbox has room", maxTries)
	}
	return n, nil
}

func checkSecrets(v setting.Values) error {
	for _, field := range []string{FieldUser, FieldPassword, FieldToken, FieldCredentials, FieldNKey} {
		if len(v.Text(field)) > maxSecret {
			return notification.BadField(field, "has more than %d bytes", maxSecret)
		}
	}
	for _, field := range []string{FieldCA, FieldCertificate, FieldKey} {
		if len(v.Text(field)) > maxPEM {
			return notification.BadField(field, "has more than %d bytes", maxPEM)
		}
	}
	if text := v.Text(FieldCredentials); text != "" {
		_, err := nkeys.ParseDecoratedJWT([]byte(text))
		if _, seedErr := nkeys.ParseDecoratedUserNKey([]byte(text)); errors.Join(err, seedErr) != nil {
			return notification.BadField(FieldCredentials, "has no JWT and seed of a NATS user, as a file .creds has")
		}
	}
	if text := v.Text(FieldNKey); text != "" {
		if _, _, err := keyOf(text); err != nil {
			return notification.BadField(FieldNKey, "has no seed of a NATS user, which begins with SU")
		}
	}
	if ca := v.Text(FieldCA); ca != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(ca)) {
		return notification.BadField(FieldCA, "has no certificate in PEM")
	}
	cert, key := v.Text(FieldCertificate), v.Text(FieldKey)
	if cert != "" && key != "" { // the key may be stored already
		if _, err := tls.X509KeyPair([]byte(cert), []byte(key)); err != nil {
			return notification.BadField(FieldCertificate, "and key are no certificate in PEM and its key")
		}
	}
	return nil
}
