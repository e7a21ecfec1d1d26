// Package jetstream is the kind of source that reads a stream of a NATS JetStream through a durable pull consumer. The consumer is the
// checkpoint: a message is acknowledged once it is stored here.
package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/dbserver"
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
