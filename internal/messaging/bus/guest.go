package bus

import (
	"crypto/rand"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Version is the version of the NATS server within the process.
const Version = server.VERSION

// Visitor is a NATS client that a listener has authenticated.
type Visitor struct {
	App  string
	All  bool // the server does not limit it within its app
	Addr netip.AddrPort
	As   string // whose credentials it has: a key's id or a recipient
}

// guest is a visitor with a connection. It reaches its app's topics, requests, discovery and inboxes; within these the listener checks its
// rights. It can answer only requests that it received. A guest with All has no limits within its app.
type guest struct {
	Visitor
	user string // unlike that of any other connection
}

// answerFor is how long after a request the server accepts its answer.
const answerFor = 2 * time.Minute

// Refused is the first token of subjects that no guest may use: the server answers operations on them with the error that clients
// recognise.
const Refused = "_refused"

func (g guest) permissions() *server.Permissions {
	if g.All {
		return &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{Refused + ".>"}}, Subscribe: &server.SubjectPermission{Deny: []string{Refused + ".>"}},
		}
	}
	own, discovery := prefix(g.App)+">", "$SRV.>"
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{own, discovery}},
		Subscribe: &server.SubjectPermission{Allow: []string{own, discovery, "_INBOX.>"}},
		Response:  &server.ResponsePermission{MaxMsgs: -1, Expires: answerFor},
	}
}

// Open opens a connection to the server within the process for a NATS client. The client sends user and password in its CONNECT. The caller
// closes the connection and calls left after that. ErrUnavailable: the server is stopping, or an external one is used.
func (b *Bus) Open(v Visitor) (c net.Conn, user, password string, left func(), err error) {
	e, ok := b.dial.(*embedded)
	if !ok {
		return nil, "", "", nil, errAway
	}
	if err := e.hold(v.App); err != nil {
		return nil, "", "", nil, err
	}
	secret := rand.Text()
	e.mu.Lock()
	e.visits++
	user = v.App + "~" + strconv.FormatUint(e.visits, 10) // no app's name has a tilde
	e.guests[secret] = guest{v, user}
	e.held[v.App].guests++
	e.mu.Unlock()
	left = func() {
		e.mu.Lock()
		delete(e.guests, secret)
		e.held[v.App].guests--
		e.mu.Unlock()
		e.drop(v.App)
	}
	if c, err = e.dial(); err != nil {
		left()
		return nil, "", "", nil, errClosed
	}
	return c, user, secret, left, nil
}
