package bus

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startPatience is how long the server may take to take connections. It takes milliseconds.
const startPatience = 10 * time.Second

// embedded is the NATS server within the process. It listens nowhere.
type embedded struct {
	nats   *server.Server
	secret string // of connections made here
}

func startEmbedded() (*embedded, error) {
	e := &embedded{secret: rand.Text()}
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

// Check implements server.Authentication: it lets in who has the secret, and puts each into its app's account.
func (e *embedded) Check(c server.ClientAuthentication) bool {
	said := c.GetOpts()
	if subtle.ConstantTimeCompare([]byte(said.Password), []byte(e.secret)) != 1 || said.Username == "" {
		return false
	}
	account, _ := e.nats.LookupOrRegisterAccount(said.Username)
	c.RegisterUser(&server.User{Username: said.Username, Account: account})
	return true
}
