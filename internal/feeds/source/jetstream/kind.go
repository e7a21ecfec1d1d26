// Package jetstream is the kind of source that reads a stream of a NATS JetStream through a durable pull consumer. The consumer is the
// checkpoint: a message is acknowledged once it is stored here.
package jetstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/dbserver"
	"godwit.dev/godwit/internal/notify/notification"
)

// Name is the name of this kind of source.
const Name = "jetstream"

// Fields of the kind.
const (
	FieldURL         = dbserver.FieldURL
	FieldStream      = "stream"
	FieldSubjects    = "subjects"
	FieldConsumer    = "consumer"
	FieldFrom        = "from"
	FieldTries       = "tries"
	FieldDomain      = "domain"
	FieldInbox       = "inbox"
	FieldUser        = "user"
	FieldPassword    = dbserver.FieldPassword
	FieldToken       = "token"
	FieldCredentials = "credentials"
	FieldNKey        = "nkey"
	FieldCA          = dbserver.FieldCA
	FieldCertificate = "certificate"
	FieldKey         = "key"
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

// Where a new consumer begins.
const (
	fromAll = "all"
	fromNew = "new"
)

const example = "nats://host:4222 or tls://host:4222"

// Kind is this kind of source.
type Kind struct{}

var (
	_ source.Kind    = Kind{}
	_ source.Remover = Kind{}
	_ source.Sole    = Kind{}
	_ setting.Tidier = Kind{}

	_ setting.Recipient = Kind{}
)

// About implements source.Kind.
func (Kind) About() string { return "messages of a NATS JetStream stream, by a durable pull consumer" }

// Fields implements source.Kind.
func (Kind) Fields() []setting.Field {
	return []setting.Field{
		{Name: FieldURL, Address: true, Flag: "nats-url", Help: "where NATS is: " + example + "; several servers of one cluster are separated by commas"},
		{Name: FieldStream, Flag: "stream", Help: "the stream to read, which must exist"},
		{Name: FieldSubjects, Type: setting.List, Most: maxSubjects, Flag: "subject", Help: "read messages of this subject only, which may have wildcards (repeatable)"},
		{Name: FieldConsumer, Flag: "consumer", Help: "durable pull consumer, which is made if it does not exist (default: godwit_, the app, _ and the source)"},
		{Name: FieldFrom, Flag: "from", Help: "where a consumer that is made begins: all, which is the default, or new"},
		{Name: FieldTries, Flag: "tries", Help: "number of deliveries after which a message whose mailbox is full goes to quarantine (default: it waits)"},
		{Name: FieldDomain, Flag: "domain", Help: "JetStream domain, where the stream is behind a leaf node"},
		{Name: FieldInbox, Flag: "inbox-prefix", Help: "prefix of the subjects on which answers are received (default: _INBOX)"},
		{Name: FieldUser, Flag: "user", Help: "user of a NATS that takes passwords"},
		{Name: FieldPassword, Secret: true, Flag: "password-file", Help: "file with the password"},
		{Name: FieldToken, Secret: true, Flag: "token-file", Help: "file with the token of a NATS that takes one"},
		{Name: FieldCredentials, Secret: true, Lines: true, Flag: "credentials-file", Help: "file with a NATS user's JWT and key (.creds)"},
		{Name: FieldNKey, Secret: true, Flag: "nkey-file", Help: "file with the seed of a NATS user's NKey"},
		{Name: FieldCA, Lines: true, Flag: "nats-ca", Help: "file with the certificates of the authorities that vouch for NATS, PEM (default: the system's)"},
		{Name: FieldCertificate, Lines: true, Flag: "nats-certificate", Help: "file with the certificate that NATS asks of its clients, PEM"},
		{Name: FieldKey, Secret: true, Lines: true, Flag: "nats-key", Help: "file with the key of that certificate, PEM"},
	}
}

// Tidy implements setting.Tidier: a user with a password, or a token, within the URL becomes the fields of those names.
func (Kind) Tidy(v setting.Values) {
	urls := strings.Split(v.Text(FieldURL), ",")
	for i, raw := range urls {
		u, err := url.Parse(strings.TrimSpace(raw))
		if err != nil || u.User == nil {
			continue
		}
		if password, ok := u.User.Password(); ok {
			put(v, FieldUser, u.User.Username())
			put(v, FieldPassword, password)
		} else {
			put(v, FieldToken, u.User.Username())
		}
		u.User = nil
		urls[i] = u.String()
	}
	if v.Text(FieldURL) != "" {
		setting.Put(v, FieldURL, strings.Join(urls, ","))
	}
}

// put sets a field that was not given.
func put(v setting.Values, field, value string) {
	if _, given := v[field]; !given {
		setting.Put(v, field, value)
	}
}

// Recipients implements setting.Recipient.
func (Kind) Recipients(v setting.Values) (list []string) {
	for _, raw := range strings.Split(v.Text(FieldURL), ",") {
		if u, err := url.Parse(raw); err == nil && raw != "" {
			list = append(list, setting.At(v.Text(FieldUser), u.Hostname(), cmp.Or(u.Port(), strconv.Itoa(nats.DefaultPort))))
		}
	}
	return list
}

// Reads implements source.Sole: two sources of one consumer would divide its messages, whatever their apps. Each account has streams of its own,
// and two users may be of two accounts: sources with different users count as apart.
func (Kind) Reads(at setting.Place, v setting.Values) string {
	servers := strings.Split(v.Text(FieldURL), ",")
	for i, raw := range servers {
		if u, err := url.Parse(raw); err == nil {
			servers[i] = net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(u.Port(), strconv.Itoa(nats.DefaultPort)))
		}
	}
	slices.Sort(servers)
	return fmt.Sprintf("%q %q", servers, []string{
		v.Text(FieldDomain), v.Text(FieldStream), consumer(&source.Target{App: at.App, Name: at.Name, Values: v}),
		v.Text(FieldUser), v.Text(FieldToken), v.Text(FieldCredentials), v.Text(FieldNKey),
	})
}

// What implements source.Sole.
func (Kind) What(at setting.Place, v setting.Values) string {
	return "the consumer " + consumer(&source.Target{App: at.App, Name: at.Name, Values: v}) + " of the stream " + v.Text(FieldStream)
}

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

// consumer is the name of a source's consumer.
func consumer(t *source.Target) string {
	if name := t.Values.Text(FieldConsumer); name != "" {
		return name
	}
	plain := func(name string) string {
		return strings.Map(func(r rune) rune {
			if named().MatchString(string(r)) {
				return r
			}
			return '-'
		}, name)
	}
	name := "godwit_" + plain(t.App) + "_" + plain(t.Name)
	if plain(t.App) != t.App || plain(t.Name) != t.Name || len(name) > maxName { // other names must not become the same
		name = name[:min(len(name), maxName-9)] + "_" + digest(t.App, t.Name)[:8]
	}
	return name
}

// Remove implements source.Remover: it deletes the consumer that the source has made.
func (Kind) Remove(ctx context.Context, t source.Target) error {
	at, err := readPosition(&t)
	if err != nil || at == nil || !at.Made {
		return err
	}
	c, err := connect(ctx, &t)
	if err != nil {
		return err
	}
	defer c.close()
	err = c.ask(ctx, func(ctx context.Context) error { return c.js.DeleteConsumer(ctx, at.Stream, at.Consumer) })
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return c.explain(err, "delete the consumer "+at.Consumer)
}
