package jetstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/dbserver"
)

const (
	answerWithin = 5 * time.Second // a request to JetStream
	pingEvery    = 5 * time.Second // a silent NATS is noticed after two of these
	pingsMissed  = 2
)

// conn is a connection to a NATS. It never connects again by itself: after a loss the source is opened anew, so that it knows what was
// delivered and not acknowledged.
type conn struct {
	t    *source.Target
	nc   *nats.Conn
	js   jetstream.JetStream
	life context.Context // ends with the connection, and with the first right that lacks; its cause says why
	lost context.CancelCauseFunc
}

// connect connects to NATS. ctx bounds the life of the connection.
func connect(ctx context.Context, t *source.Target) (*conn, error) {
	c := &conn{t: t}
	c.life, c.lost = context.WithCancelCause(ctx)
	err := c.dial()
	if err == nil {
		c.js, err = c.jetStream()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *conn) dial() error {
	options, err := c.options()
	if err != nil {
		return err
	}
	if c.nc, err = nats.Connect(c.t.Values.Text(FieldURL), options...); err != nil {
		return refused(err)
	}
	return nil
}

func (c *conn) jetStream() (jetstream.JetStream, error) {
	if domain := c.t.Values.Text(FieldDomain); domain != "" {
		return jetstream.NewWithDomain(c.nc, domain)
	}
	return jetstream.New(c.nc)
}

// options are those of the connection. Nothing of it comes from the environment or from files of this machine.
func (c *conn) options() ([]nats.Option, error) {
	v := c.t.Values
	options := []nats.Option{
		nats.Name("godwit source " + c.t.Name), nats.NoReconnect(), nats.SetCustomDialer(dialer{c}), nats.SkipHostLookup(), nats.Timeout(dbserver.DialWithin),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsMissed), nats.ErrorHandler(c.failed), nats.ClosedHandler(c.closed),
	}
	if prefix := v.Text(FieldInbox); prefix != "" {
		options = append(options, nats.CustomInboxPrefix(prefix))
	}
	if user := v.Text(FieldUser); user != "" {
		options = append(options, nats.UserInfo(user, v.Text(FieldPassword)))
	}
	if token := v.Text(FieldToken); token != "" {
		options = append(options, nats.Token(token))
	}
	if creds := v.Text(FieldCredentials); creds != "" {
		options = append(options, nats.UserCredentialBytes([]byte(creds)))
	}
	if seed := v.Text(FieldNKey); seed != "" {
		pair, public, err := keyOf(seed)
		if err != nil {
			return nil, errors.New("the seed of the NKey is damaged") // it was checked when it was set
		}
		options = append(options, nats.Nkey(public, pair.Sign))
	}
	secure, err := c.secure()
	return append(options, secure...), err
}

// secure are the options of TLS. A server may ask for it where the URL does not.
func (c *conn) secure() ([]nats.Option, error) {
	v := c.t.Values
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: dbserver.Pool(v.Text(FieldCA))}
	if cert := v.Text(FieldCertificate); cert != "" {
		pair, err := tls.X509KeyPair([]byte(cert), []byte(v.Text(FieldKey)))
		if err != nil {
			return nil, errors.New("certificate and key of the source do not belong together: set both anew")
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	if v.Text(FieldCA) == "" && len(cfg.Certificates) == 0 && !strings.Contains(v.Text(FieldURL), "tls://") {
		return []nats.Option{func(o *nats.Options) error { o.TLSConfig = cfg; return nil }}, nil
	}
	return []nats.Option{nats.Secure(cfg)}, nil
}

// keyOf returns the key pair of a seed, in the decoration of a file or without.
func keyOf(seed string) (pair nkeys.KeyPair, public string, err error) {
	if pair, err = nkeys.ParseDecoratedUserNKey([]byte(seed)); err == nil {
		public, err = pair.PublicKey()
	}
	return pair, public, err
}

// dialer dials the targets of the source.
type dialer struct{ c *conn }

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(d.c.life, dbserver.DialWithin, fmt.Errorf("%s did not answer in %s", address, dbserver.DialWithin))
	defer cancel()
	return dbserver.Dialer(d.c.t)(ctx, network, address)
}

// failed hears errors that NATS tells without being asked.
func (c *conn) failed(_ *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		c.lost(&problem{"the rights of the NATS user do not suffice", err})
	}
}

// closed hears that the connection is gone.
func (c *conn) closed(nc *nats.Conn) {
	err := nc.LastError()
	if err == nil {
		err = nats.ErrConnectionClosed
	}
	c.lost(refused(err))
}

func (c *conn) close() {
	if c.nc != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.nc.FlushWithContext(ctx) // messages that nobody acknowledges come again
		c.nc.Close()
	}
	c.lost(nil)
}

// ask calls do with a time limit. If the connection fails meanwhile, its error says so.
func (c *conn) ask(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	err := do(ctx)
	if err != nil && c.life.Err() != nil {
		return context.Cause(c.life)
	}
	return err
}

// problem is an error whose first part may be logged, since it has no words of NATS.
type problem struct {
	plain string
	said  error // nil: nothing
}

func plainly(format string, args ...any) error { return &problem{plain: fmt.Sprintf(format, args...)} }

// Error implements error.
func (p *problem) Error() string {
	if p.said == nil {
		return p.plain
	}
	return p.plain + ": " + p.said.Error()
}

// Plain returns the text for the log.
func (p *problem) Plain() string { return p.plain }

// Unwrap returns what NATS has said.
func (p *problem) Unwrap() error { return p.said }

// refused says in words why there is no connection. No error of the client library has a secret.
func refused(err error) error {
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return &problem{"NATS does not accept the credentials of the source", err}
	case errors.Is(err, nats.ErrNoServers):
		return &problem{"no server of the URL can be reached as NATS", err}
	}
	return fmt.Errorf("connection to NATS: %w", err)
}

// explain says what an error of JetStream means, and what to do.
func (c *conn) explain(err error, doing string) error {
	stream := c.t.Values.Text(FieldStream)
	var said *jetstream.APIError
	switch {
	case err == nil, c.life.Err() != nil:
		return err
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return plainly("%s: JetStream is off in this NATS, has no leader, or the domain is wrong", doing)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return plainly("%s: JetStream is off for the account of the NATS user", doing)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return plainly("the stream %s does not exist: make it, or set the source to another", stream)
	case errors.Is(err, context.DeadlineExceeded):
		return plainly("%s: JetStream did not answer in %s", doing, answerWithin)
	case errors.As(err, &said):
		return &problem{fmt.Sprintf("%s: JetStream refuses it (%d)", doing, said.ErrorCode), errors.New(said.Description)}
	}
	return fmt.Errorf("%s: %w", doing, err)
}
