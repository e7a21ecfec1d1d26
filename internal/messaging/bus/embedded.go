package bus

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startPatience limits how long the server may take until it accepts connections. Normally that takes milliseconds.
const startPatience = 10 * time.Second

// embedded is the NATS server within the process. Without a cluster it has no listener: every client was authenticated before it is
// connected. It starts when the first app uses it, in milliseconds; a server without topics and requests saves a megabyte.
type embedded struct {
	secret  string   // password of the connections that carry the bus's own messages
	cluster *Cluster // nil: it is alone
	logger  *journal // log of a server in a cluster; nil: nothing is logged

	mu     sync.Mutex
	nats   *server.Server // nil until it is used
	closed bool
	held   map[string]*held // accounts in use, by app
	usable map[string]bool  // accounts of a cluster, by app, that this node has made or given claims; the server deletes none
	free   []*server.Account
	made   int
	visits uint64           // guests since the start
	guests map[string]guest // who may connect, by secret
}

// held is an account with the number of its open and pending connections. An account without connections has no state of its former app,
// and the next app gets it: the server cannot delete accounts.
type held struct {
	account *server.Account
	n       int
	guests  int // how many of these are connections of NATS clients
}

func newEmbedded() *embedded {
	return &embedded{secret: rand.Text(), held: make(map[string]*held), usable: make(map[string]bool), guests: make(map[string]guest)}
}

// start starts the server, once. The lock is held.
func (e *embedded) start() error {
	switch {
	case e.closed:
		return errClosed
	case e.nats != nil:
		return nil
	}
	options := &server.Options{
		ServerName: "godwit", DontListen: true, NoSigs: true, NoLog: true, NoSystemAccount: true,
		MaxPayload: MaxPayload, CustomClientAuthentication: e,
	}
	if e.cluster != nil {
		e.cluster.join(options)
	}
	s, err := server.NewServer(options)
	if err != nil {
		return fmt.Errorf("start the message bus: %w", err)
	}
	if e.logger != nil {
		s.SetLoggerV2(e.logger, false, false, false)
	}
	s.Start()
	if !s.ReadyForConnections(startPatience) {
		s.Shutdown()
		return errors.New("start the message bus: it took no connection")
	}
	e.nats = s
	return nil
}

func (e *embedded) close() {
	e.mu.Lock()
	s := e.nats
	e.closed = true
	e.mu.Unlock()
	if s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// dial makes a connection within the process, for an app whose account hold has reserved.
func (e *embedded) dial() (net.Conn, error) {
	e.mu.Lock()
	s := e.nats
	e.mu.Unlock()
	return s.InProcessConn()
}

// Check implements server.Authentication: it accepts clients with a valid secret, and assigns each to its app's account.
func (e *embedded) Check(c server.ClientAuthentication) bool {
	said := c.GetOpts()
	user, app := &server.User{Username: said.Username}, said.Username
	e.mu.Lock()
	defer e.mu.Unlock()
	if subtle.ConstantTimeCompare([]byte(said.Password), []byte(e.secret)) != 1 {
		g, ok := e.guests[said.Password]
		if !ok || g.user != said.Username {
			return false
		}
		user.Permissions, app = g.permissions(), g.App
	}
	switch h := e.held[app]; {
	case h != nil:
		user.Account = h.account
	case user.Permissions == nil && e.cluster != nil && isOwn(said.Username):
		account, err := e.nats.LookupAccount(said.Username)
		if err != nil {
			return false
		}
		user.Account = account
	default:
		return false // the app's connections have ended meanwhile
	}
	c.RegisterUser(user)
	return true
}

// hold reserves an app's account until drop.
func (e *embedded) hold(app string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.held[app]; h != nil {
		h.n++
		return nil
	}
	if err := e.start(); err != nil {
		return err
	}
	account, err := e.account(app)
	if err != nil {
		return fmt.Errorf("make an account of the message bus for app %s: %w", app, err)
	}
	e.held[app] = &held{account: account, n: 1}
	return nil
}

// account returns an account for an app, and makes one if necessary. In a cluster the account's name is that of the app, on all nodes; a
// server without other nodes reuses unused accounts for other apps.
func (e *embedded) account(app string) (*server.Account, error) {
	if e.cluster != nil {
		return shared(e.nats, app, e.usable, runtime.Gosched), nil
	}
	if a := e.unused(); a != nil {
		return a, nil
	}
	e.made++
	return e.nats.RegisterAccount("app-" + strconv.Itoa(e.made))
}

// unused returns an account of an earlier app whose last connection has completely ended; nil if there is none.
func (e *embedded) unused() *server.Account {
	for i, a := range e.free {
		if a.NumLocalConnections() == 0 && a.TotalSubs() == 0 {
			e.free = append(e.free[:i], e.free[i+1:]...)
			return a
		}
	}
	return nil
}

func (e *embedded) drop(app string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.held[app]
	if h.n--; h.n == 0 {
		delete(e.held, app)
		if e.cluster == nil {
			e.free = append(e.free, h.account)
		}
	}
}

// connect implements dialer.
func (e *embedded) connect(l *link, options ...nats.Option) (*nats.Conn, error) {
	if err := e.hold(l.name); err != nil {
		return nil, err
	}
	nc, err := nats.Connect("", append(options, nats.InProcessServer(inProcess{e, &l.wired}), nats.UserInfo(l.name, e.secret))...)
	if err != nil {
		e.drop(l.name)
		return nil, fmt.Errorf("connect app %s to the message bus: %w", l.name, err)
	}
	return nc, nil
}

// alone reports whether no NATS client is connected to an app's account, or connecting. In a cluster it is always false: this node does not
// know the clients of other nodes.
func (e *embedded) alone(app string) bool {
	if e.cluster != nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.held[app]
	return h == nil || h.guests == 0
}

// served implements dialer. The server knows the subscriptions of other nodes, too.
func (e *embedded) served(app, subject string) bool {
	e.mu.Lock()
	h := e.held[app]
	e.mu.Unlock()
	return h != nil && h.account.SubscriptionInterest(subject)
}

func (e *embedded) disconnected(l *link) { e.drop(l.name) }

// name returns the name of an app's link. It is the app's name: each app has a link of its own.
func (e *embedded) name(app string) string { return app }

// inProcess makes the connections of a link or line: the first one, and another after each loss.
type inProcess struct {
	server *embedded
	to     *wired
}

// InProcessConn implements nats.InProcessConnProvider.
func (p inProcess) InProcessConn() (net.Conn, error) {
	c, err := p.server.dial()
	if err != nil {
		return nil, err
	}
	return p.to.patiently(c), nil
}
