package bus

import (
	"crypto/rand"
	"net"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Version is the version of the NATS server within the process.
const Version = server.VERSION

// guest is a NATS client that a listener has authenticated. It reaches its app's topics, requests, discovery and inboxes; within these the
// listener checks its rights. It can answer only requests that it received. A guest with all has no limits within its app.
type guest struct {
	app string
	all bool
}

// answerFor is how long after a request the server accepts its answer.
const answerFor = 2 * time.Minute

// Refused is the first token of subjects that no guest may use: the server answers operations on them with the error that clients
// recognise.
const Refused = "_refused"

func (g guest) permissions() *server.Permissions {
	if g.all {
		return &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{Refused + ".>"}}, Subscribe: &server.SubjectPermission{Deny: []string{Refused + ".>"}},
		}
	}
	own, discovery := prefix(g.app)+">", "$SRV.>"
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{own, discovery}},
		Subscribe: &server.SubjectPermission{Allow: []string{own, discovery, "_INBOX.>"}},
		Response:  &server.ResponsePermission{MaxMsgs: -1, Expires: answerFor},
	}
}

// Open opens a connection to the server within the process for a NATS client of an app. The client sends user and password in its CONNECT.
// The caller closes the connection and calls left after that. ErrUnavailable: the server is stopping, or an external one is used.
func (b *Bus) Open(app string, all bool) (c net.Conn, user, password string, left func(), err error) {
	e, ok := b.dial.(*embedded)
	if !ok {
		return nil, "", "", nil, errAway
	}
	if err := e.hold(app); err != nil {
		return nil, "", "", nil, err
	}
	secret := rand.Text()
	e.mu.Lock()
	e.guests[secret] = guest{app, all}
	e.held[app].guests++
	e.mu.Unlock()
	left = func() {
		e.mu.Lock()
		delete(e.guests, secret)
		e.held[app].guests--
		e.mu.Unlock()
		e.drop(app)
	}
	if c, err = e.dial(); err != nil {
		left()
		return nil, "", "", nil, errClosed
	}
	return c, app, secret, left, nil
}
