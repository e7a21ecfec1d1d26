package bus

import (
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
)

// The first subscription of another node makes a route create an account, which the route marks as expired a moment later. The server drops
// the other node's messages while the account stays expired.
func TestAnAccountThatARouteHasJustMadeIsUsable(t *testing.T) {
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, NoSystemAccount: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	made, _ := s.LookupOrRegisterAccount("app:rides")
	marked := false
	mark := func() {
		if marked {
			return
		}
		marked = true
		past := jwt.NewAccountClaims(made.Name)
		past.Expires = time.Now().Add(-time.Hour).Unix()
		s.UpdateAccountClaims(made, past)
	}
	usable := make(map[string]bool)
	a := shared(s, "rides", usable, mark)
	mark() // at the latest
	if a != made || a.IsExpired() {
		t.Errorf("the account %s is expired: %t", a.Name, a.IsExpired())
	}
	if again := shared(s, "rides", usable, func() { t.Fatal("it is waited for again") }); again != made {
		t.Errorf("later it is %s", again.Name)
	}
	if own := shared(s, "stars", usable, func() { t.Fatal("an account of this node is waited for") }); own.IsExpired() {
		t.Error("an account of this node is expired")
	}
}
