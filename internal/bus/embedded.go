package bus

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startPatience is how long the server may take to take connections. It takes milliseconds.
const startPatience = 10 * time.Second

// embedded is the NATS server within the process. It listens nowhere: who connects was let in before.
type embedded struct {
	nats   *server.Server
	secret string // of connections that carry the bus's own messages

	mu     sync.Mutex
	held   map[string]*held // accounts in use, by app
	free   []*server.Account
	made   int
	guests map[string]guest // who may connect, by secret
}

// held is an account and how many connections are in it or about to be. An account that no connection is in has nothing
// of the app that had it, and goes to the next: the server has no way to delete one.
type held struct {
	account *server.Account
	n       int
}

func startEmbedded() (*embedded, error) {
	e := &embedded{secret: rand.Text(), held: make(map[string]*held), guests: make(map[string]guest)}
	s, err := server.NewServer(&server.Options{
		ServerName: "godwit", DontListen: true, NoSigs: true, NoLog: true, NoSystemAccount: true,
		MaxPayload: MaxPayload, CustomClientAuthentication: e,
	})
	if err != nil {
		return nil, fmt.Errorf("start the message bus: %w", err)
	}
	e.nats = s
	s.Start()
	if !s.ReadyForConnections(startPatience) {
		e.close()
		return nil, errors.New("start the message bus: it took no connection")
	}
	return e, nil
}

func (e *embedded) close() {
	e.nats.Shutdown()
	e.nats.WaitForShutdown()
}

// Check implements server.Authentication: it lets in who has a secret, and puts each into its app's account.
func (e *embedded) Check(c server.ClientAuthentication) bool {
	said := c.GetOpts()
	user := &server.User{Username: said.Username}
	e.mu.Lock()
	defer e.mu.Unlock()
	if subtle.ConstantTimeCompare([]byte(said.Password), []byte(e.secret)) != 1 {
		g, ok := e.guests[said.Password]
		if !ok || g.app != said.Username {
			return false
		}
		user.Permissions = g.permissions()
	}
	h := e.held[said.Username]
	if h == nil {
		return false // the app's connections have ended meanwhile
	}
	user.Account = h.account
	c.RegisterUser(user)
	return true
}

// hold keeps an app's account until drop.
func (e *embedded) hold(app string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.held[app]; h != nil {
		h.n++
		return nil
	}
	account := e.unused()
	if account == nil {
		e.made++
		var err error
		if account, err = e.nats.RegisterAccount("app-" + strconv.Itoa(e.made)); err != nil {
			return fmt.Errorf("make an account of the message bus for app %s: %w", app, err)
		}
	}
	e.held[app] = &held{account: account, n: 1}
	return nil
}

// unused takes an account that had an app before, if the last connection of that is wholly gone.
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
		e.free = append(e.free, h.account)
	}
}

// connect implements dialer.
func (e *embedded) connect(l *link, options ...nats.Option) (*nats.Conn, error) {
	if err := e.hold(l.name); err != nil {
		return nil, err
	}
	nc, err := nats.Connect("", append(options, nats.InProcessServer(inProcess{e, l}), nats.UserInfo(l.name, e.secret))...)
	if err != nil {
		e.drop(l.name)
		return nil, fmt.Errorf("connect app %s to the message bus: %w", l.name, err)
	}
	return nc, nil
}

func (e *embedded) disconnected(l *link) { e.drop(l.name) }

// name is that of an app's link: each has its own.
func (e *embedded) name(app string) string { return app }

// inProcess makes the connections of a link, the first and each after a loss.
type inProcess struct {
	server *embedded
	link   *link
}

// InProcessConn implements nats.InProcessConnProvider.
func (p inProcess) InProcessConn() (net.Conn, error) {
	c, err := p.server.nats.InProcessConn()
	if err != nil {
		return nil, err
	}
	return p.link.patiently(c), nil
}
