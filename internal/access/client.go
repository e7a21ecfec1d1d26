package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// all is the pattern list of a client that may use all names.
var all = []string{">"}

// everywhere is the list of a client that may publish everything: to topics, and by their first words to mailboxes, objects and requests.
var everywhere = []string{">", "to.>", "o.>", "r.>"}

// Client verifies a client's claim: it finds the app, verifies the credential by that app's own settings, then compares everything else in
// the claim with the credential. From an unverified token it uses only the app claim, the algorithm and the key id, and only to choose
// keys. A request to an app's server has its own timeout instead of ctx's, because callers with the same token share one request.
func (r *Registry) Client(_ context.Context, c Claim) (Client, error) { return r.client(c, true) }

// Known is Client, but with only static keys, fetched key sets and recent answers of apps' servers. It computes for some tenths of a
// millisecond at most and never blocks; if these are not enough, it returns an *AskError.
func (r *Registry) Known(c Claim) (Client, error) { return r.client(c, false) }

func (r *Registry) client(c Claim, ask bool) (Client, error) {
	for _, f := range []struct{ field, value string }{{"recipient", c.Recipient}, {"group", c.Group}, {"device", c.Device}} {
		if f.value == "" {
			continue
		}
		if err := notification.CheckName(f.field, f.value); err != nil {
			return Client{}, err
		}
	}
	verify := r.byToken
	if c.CertURI != "" {
		verify = r.byCertificate
	}
	client, err := verify(c, ask)
	if err != nil {
		return Client{}, err
	}
	if c.Origin != "" && !r.Origin(client.App, c.Origin, c.Host) {
		return Client{}, fmt.Errorf("%w: pages of origin %.100q may not connect to app %s", ErrForbidden, c.Origin, client.App)
	}
	return client, nil
}

// byCertificate identifies the client by the URI of a certificate that TLS has verified. The app says which topics and subjects its
// certificates allow, and what they may publish. If there is also a token, it must name the same client, and its claims say that instead.
func (r *Registry) byCertificate(c Claim, ask bool) (Client, error) {
	id, err := parseCertURI(c.CertURI)
	if err != nil {
		return Client{}, err
	}
	app := r.snap.Load().apps[id.App]
	if app == nil {
		return Client{}, unknownApp(id.App)
	}
	id.Topics, id.Serve, id.Publish = app.CertificateTopics, app.CertificateServe, app.CertificatePublish
	client, err := id.confirm(c)
	if err != nil || c.Token == "" {
		return client, err
	}
	c.App, c.Recipient = client.App, client.Recipient
	if c.Group == "" {
		c.Group = client.Group
	}
	return r.byToken(c, ask)
}

func (r *Registry) byToken(c Claim, ask bool) (Client, error) {
	if c.Token == "" {
		return r.withoutToken(c)
	}
	if p, ok := r.findKey(c.Token); ok {
		return byKey(p, c)
	}
	if len(c.Token) > maxTokenBytes {
		return Client{}, fmt.Errorf("%w: token is longer than %d bytes", ErrUnauthenticated, maxTokenBytes)
	}
	now := time.Now()
	tok, isJWT := parseToken(c.Token)
	app, err := r.tokenApp(c.App, tok)
	if err != nil {
		return Client{}, err
	}
	var id identity
	err = errNoKey
	if isJWT {
		id, err = r.verifyJWT(app, tok, now, ask)
	}
	if errors.Is(err, errNoKey) && app.IntrospectURL != "" {
		id, err = r.intro.verify(r.life, app, c.Token, now, ask)
	}
	if err != nil {
		return Client{}, err
	}
	return id.confirm(c)
}

// tokenApp returns the app whose keys verify the token.
func (r *Registry) tokenApp(named string, tok *token) (*App, error) {
	snap := r.snap.Load()
	if named == "" && tok != nil {
		named = tok.unverifiedApp()
	}
	if app := snap.apps[snap.defaultApp(named)]; app != nil {
		return app, nil
	}
	return nil, unknownApp(named)
}

func (r *Registry) withoutToken(c Claim) (Client, error) {
	app := r.snap.Load().defaultApp(c.App)
	if !r.cfg.Dev || app != DevApp {
		return Client{}, fmt.Errorf("%w: a token is required", ErrUnauthenticated)
	}
	if c.Recipient == "" {
		return Client{}, notification.BadField("recipient", "is required: in dev mode a client without token names its recipient")
	}
	return Client{App: app, Recipient: c.Recipient, Group: c.Group, Device: c.Device, Topics: all, Serve: all, Publish: everywhere}, nil
}

// byKey authenticates a back end as a client: with role publish as any recipient of its app, with role read as an observer.
func byKey(p Principal, c Claim) (Client, error) {
	switch {
	case c.App != "" && c.App != p.App:
		return Client{}, fmt.Errorf("%w: the key belongs to another app", ErrForbidden)
	case !p.Roles.Has(Read):
		return Client{}, fmt.Errorf("%w: listening needs a key with role publish or read", ErrForbidden)
	case c.Recipient == "":
		return Client{}, notification.BadField("recipient", "is required: an API key may listen as any recipient of its app, so name one")
	}
	client := Client{App: p.App, Recipient: c.Recipient, Group: c.Group, Device: c.Device, Topics: all}
	client.Key = p.Key
	if client.Peek = !p.Roles.Has(Publish); !client.Peek {
		client.Publish = everywhere
	}
	if p.Roles.Has(Worker) {
		client.Serve = all
	}
	return client, nil
}

// identity is the content of a verified credential.
type identity struct {
	App, Recipient, Group, Device string
	Topics, Objects, Serve        []string
	Publish                       []string
	Expires                       time.Time
}

// confirm compares a claim with the verified identity: the client may set what the credential leaves open, and must not contradict it.
func (id identity) confirm(c Claim) (Client, error) {
	switch {
	case c.App != "" && c.App != id.App:
		return Client{}, fmt.Errorf("%w: the credential is for another app", ErrForbidden)
	case c.Recipient != "" && c.Recipient != id.Recipient:
		return Client{}, fmt.Errorf("%w: the credential is for another recipient", ErrForbidden)
	case c.Group != "" && id.Group != "" && c.Group != id.Group:
		return Client{}, fmt.Errorf("%w: the credential is for another group", ErrForbidden)
	case c.Device != "" && id.Device != "" && c.Device != id.Device:
		return Client{}, fmt.Errorf("%w: the credential is for another device", ErrForbidden)
	}
	client := Client{
		App: id.App, Recipient: id.Recipient, Group: id.Group, GroupBound: id.Group != "", Device: id.Device, Expires: id.Expires,
		Topics: topicPatterns(id.Topics, id.Recipient), Objects: patterns(id.Objects, id.Recipient), Serve: topicPatterns(id.Serve, id.Recipient),
		Publish: topicPatterns(id.Publish, id.Recipient),
	}
	if client.Group == "" {
		client.Group = c.Group
	}
	if client.Device == "" {
		client.Device = c.Device
	}
	return client, nil
}

// patterns replaces {sub} by the recipient. An empty list stays empty: it allows nothing.
func patterns(ps []string, sub string) []string {
	if ps == nil {
		return nil
	}
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = strings.ReplaceAll(p, "{sub}", sub)
	}
	return out
}
