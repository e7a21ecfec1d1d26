package attack

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"godwit.dev/godwit/internal/server/certs/certstest"
	"godwit.dev/godwit/test/blackbox"
)

// A certificate opens only the mailbox that it names, and a certificate from an unknown issuer opens none.
func TestAForeignCertificateOpensNoMailbox(t *testing.T) {
	cert, key, trust := certstest.Issue(t, t.TempDir(), "server")
	own, ownKey, _ := certstest.Issue(t, t.TempDir(), "own", "godwit://demo/drivers/driver-1")
	foreign, foreignKey, _ := certstest.Issue(t, t.TempDir(), "foreign", "godwit://demo/drivers/driver-1")
	s := blackbox.New(t, blackbox.Plain(), blackbox.Args(
		"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", own, "--bootstrap-app", "demo"))
	if err := s.Spawn(); err != nil {
		t.Fatal(err)
	}
	listening(t, s)
	type show = func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	pair := func(cert, key string) show { // whatever authorities the server names
		c, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }
	}
	for _, c := range []struct {
		name, hello, want string // empty want: not even a connection
		shows             show
	}{
		{"its own", `{"hello":{}}`, `"recipient":"driver-1"`, pair(own, ownKey)},
		{"another's mailbox", `{"hello":{"recipient":"driver-2"}}`, `"goodbye":{"reason":"forbidden"`, pair(own, ownKey)},
		{"another app", `{"hello":{"app":"shop"}}`, `"goodbye":{"reason":`, pair(own, ownKey)},
		{"no certificate", `{"hello":{"app":"demo","recipient":"driver-1"}}`, `"goodbye":{"reason":"unauthenticated"`, nil},
		{"another authority", `{"hello":{}}`, "", pair(foreign, foreignKey)},
	} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust, GetClientCertificate: c.shows}}
		ws, _, err := websocket.Dial(t.Context(), "wss://"+s.HTTP+"/v1/connect", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
		answer := ""
		if err == nil {
			if err = ws.Write(t.Context(), websocket.MessageText, []byte(c.hello)); err == nil {
				var b []byte
				_, b, err = ws.Read(t.Context())
				answer = string(b)
			}
			_ = ws.CloseNow()
		}
		transport.CloseIdleConnections()
		if c.want == "" && err == nil || c.want != "" && !strings.Contains(answer, c.want) {
			t.Errorf("%s: %s, %v; want %q", c.name, answer, err, c.want)
		}
	}
}
