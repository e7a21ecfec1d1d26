package bus

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/notification"
)

// The pages that NATS servers have for monitoring, of the server within the process: /varz for the server as a whole, /connz and /subsz for
// one app. They name apps in place of accounts, and contain no secrets and no addresses of the server's own.

// maxListed is the most connections or subscriptions on a page, the number that NATS's own tools ask for.
const maxListed = 1024

var errNoPages = fmt.Errorf("%w: topics and requests go over an external NATS, which has these pages itself", topic.ErrUnavailable)

// running returns the server within the process, and starts it if necessary.
func (b *Bus) running() (*embedded, error) {
	e, ok := b.dial.(*embedded)
	if !ok {
		return nil, errNoPages
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e, e.start()
}

// Varz returns the server's figures.
func (b *Bus) Varz() ([]byte, error) {
	e, err := b.running()
	if err != nil {
		return nil, err
	}
	v, err := e.nats.Varz(nil)
	if err != nil {
		return nil, fmt.Errorf("read the message bus's figures: %w", err)
	}
	v.Host, v.Port, v.IP, v.ClientConnectURLs, v.WSConnectURLs = "", 0, "", nil, nil // clients come by the listener for NATS clients
	v.Cluster.Host, v.Cluster.Port, v.Cluster.URLs = "", 0, nil
	v.TrustedOperatorsJwt, v.TrustedOperatorsClaim = nil, nil
	return json.Marshal(v)
}

// Connz returns an app's connections: those of its NATS clients, and the one of this server that carries its topics and requests.
func (b *Bus) Connz(app string, q url.Values) ([]byte, error) {
	e, err := b.running()
	if err != nil {
		return nil, err
	}
	o, err := connzOptions(q)
	if err != nil {
		return nil, err
	}
	auth, err := flag(q, "auth")
	if err != nil {
		return nil, err
	}
	o.Account = e.accountOf(app)
	z, err := e.nats.Connz(&o)
	if err != nil {
		return nil, fmt.Errorf("read connections of app %s: %w", app, err)
	}
	if z.ID = e.nats.ID(); z.Conns == nil { // NATS leaves both out for an account that it does not know
		z.Conns = []*server.ConnInfo{}
	}
	by := e.visitors()
	for _, c := range z.Conns {
		tidy(c, by[c.AuthorizedUser], app, auth)
	}
	return json.Marshal(z)
}

// connzOptions reads which connections a query asks for, and how.
func connzOptions(q url.Values) (o server.ConnzOptions, err error) {
	o = server.ConnzOptions{Sort: server.SortOpt(q.Get("sort")), Username: true}
	if o.Sort != "" && (!o.Sort.IsValid() || o.Sort == server.ByStop || o.Sort == server.ByReason) {
		return o, notification.BadField("sort", "must be what NATS sorts open connections by, like cid or msgs_to")
	}
	if state := q.Get("state"); state != "" && state != "open" {
		return o, notification.BadField("state", "must be open: connections that have ended are not listed")
	}
	if o.Offset, o.Limit, err = page(q); err != nil {
		return o, err
	}
	if text := q.Get("cid"); text != "" {
		if o.CID, err = strconv.ParseUint(text, 10, 64); err != nil {
			return o, notification.BadField("cid", "must be the number of a connection")
		}
	}
	detailed := q.Get("subs") == "detail"
	if o.SubscriptionsDetail = detailed; !detailed {
		if o.Subscriptions, err = flag(q, "subs"); err != nil {
			return o, err
		}
	}
	return o, nil
}

// tidy writes a connection as its NATS client sees it. v is nil for this server's own.
func tidy(c *server.ConnInfo, v *Visitor, app string, auth bool) {
	c.JWT, c.IssuerKey, c.NameTag, c.Tags = "", "", "", nil
	c.AuthorizedUser, c.Account = "", ""
	if v != nil {
		c.IP, c.Port = v.Addr.Addr().String(), int(v.Addr.Port())
	}
	if auth {
		c.Account = app
		if v != nil {
			c.AuthorizedUser = v.As
		}
	}
	for i, s := range c.Subs {
		c.Subs[i] = outside(s)
	}
	for i := range c.SubsDetail {
		tidySub(&c.SubsDetail[i], app)
	}
}

func tidySub(s *server.SubDetail, app string) {
	s.Account, s.AccountTag, s.Subject = app, "", outside(s.Subject)
}

// outside returns a subscription's subject without the random name of its inbox.
func outside(subject string) string {
	if strings.HasPrefix(subject, "_INBOX.") {
		return "_INBOX.>"
	}
	return subject
}

// Subsz returns the number of an app's subscriptions on this node, and lists them if asked to.
func (b *Bus) Subsz(app string, q url.Values) ([]byte, error) {
	e, err := b.running()
	if err != nil {
		return nil, err
	}
	o := server.SubszOptions{Test: q.Get("test"), Account: e.accountOf(app)}
	if o.Test != "" && !server.IsValidLiteralSubject(o.Test) {
		return nil, notification.BadField("test", "must be a subject without wildcards")
	}
	if o.Subscriptions, err = flag(q, "subs"); err != nil {
		return nil, err
	}
	if o.Offset, o.Limit, err = page(q); err != nil {
		return nil, err
	}
	z, err := e.nats.Subsz(&o)
	if err != nil {
		return nil, fmt.Errorf("read subscriptions of app %s: %w", app, err)
	}
	for i := range z.Subs {
		tidySub(&z.Subs[i], app)
	}
	return json.Marshal(z)
}

// noAccount is the name of no account: an app that is not in use has neither connections nor subscriptions.
const noAccount = "~none"

// accountOf returns the name of the account that an app has now.
func (e *embedded) accountOf(app string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.held[app]; h != nil {
		return h.account.GetName()
	}
	return noAccount
}

// visitors returns the connected NATS clients by the names of their connections' users.
func (e *embedded) visitors() map[string]*Visitor {
	e.mu.Lock()
	defer e.mu.Unlock()
	by := make(map[string]*Visitor, len(e.guests))
	for _, g := range e.guests {
		by[g.user] = &g.Visitor
	}
	return by
}

// flag reads a parameter that is on or off, as NATS does.
func flag(q url.Values, name string) (bool, error) {
	text := q.Get(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, notification.BadField(name, "must be true or false")
	}
	return on, nil
}

// page reads the parameters of a part of a list.
func page(q url.Values) (offset, limit int, err error) {
	for _, f := range []struct {
		name string
		into *int
	}{{"offset", &offset}, {"limit", &limit}} {
		text := q.Get(f.name)
		if text == "" {
			continue
		}
		if *f.into, err = strconv.Atoi(text); err != nil || *f.into < 0 {
			return 0, 0, notification.BadField(f.name, "must be a number of at least 0")
		}
	}
	if limit == 0 || limit > maxListed {
		limit = maxListed
	}
	return offset, limit, nil
}
