package urlguard

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnlyPublicAddressesAreGlobal(t *testing.T) {
	for _, a := range []string{
		"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.8", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808",
		"100::1", "2001::1", "2001:db8::1", "2001:20::1", "2002:7f00:1::", "2002:0808:0808::", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0",
		"fec0::1", "168.63.129.16", "64:ff9b::a83f:8110", "::ffff:168.63.129.16", "::ffff:0:127.0.0.1", "fd20:ce::254", "ff02::1", "3fff::1", "5f00::1", "2606:4700::1%eth0",
	} {
		if Global(netip.MustParseAddr(a)) {
			t.Errorf("%s passes", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "8.8.8.8", "100.63.0.1", "100.128.0.1", "172.32.0.1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700:4700::1111", "2a00:1450::1"} {
		if !Global(netip.MustParseAddr(a)) {
			t.Errorf("%s is refused", a)
		}
	}
	if Global(netip.Addr{}) {
		t.Error("no address at all passes")
	}
}

func TestURLsAreCheckedBeforeTheyAreKept(t *testing.T) {
	for url, private := range map[string]struct{ strict, lax bool }{
		"https://example.org/keys":     {true, true},
		"https://example.org:8443/?a":  {true, true},
		"https://8.8.8.8/":             {true, true},
		"http://example.org/":          {false, true},
		"https://127.0.0.1/":           {false, true},
		"https://[::1]:1/":             {false, true},
		"https://[::ffff:10.0.0.1]/":   {false, true},
		"https://[::ffff:127.0.0.1]/":  {false, true},
		"https://[::ffff:7f00:1]/":     {false, true},
		"https://[fe80::1%25eth0]/":    {false, true},
		"https://2130706433/":          {false, true},
		"https://0x7f000001/":          {false, true},
		"https://0X7F.1/":              {false, true},
		"https://017700000001/":        {false, true},
		"https://0177.0.0.1/":          {false, true},
		"https://127.1/":               {false, true},
		"https://127.0.0.1./":          {false, true},
		"https://10.0.0x1:8443/":       {false, true},
		"https://localhost/":           {false, true},
		"https://api.LocalHost./":      {false, true},
		"https://1.example.org/":       {true, true},
		"https://0x.example.org/":      {true, true},
		"https://user@example.org/":    {false, false},
		"https://example.org/#x":       {false, false},
		"https://example.org/#":        {false, false},
		"https://example.org#":         {false, false},
		"https://@example.org/":        {false, false},
		"ftp://example.org/":           {false, false},
		"file:///etc/passwd":           {false, false},
		"https://":                     {false, false},
		"https://:443/":                {false, false},
		"example.org":                  {false, false},
		"https://exa mple.org":         {false, false},
		"https://example.org/\r\nX: y": {false, false},
	} {
		if err := (Targets{}).CheckURL(url); (err == nil) != private.strict {
			t.Errorf("%q: %v", url, err)
		}
		if err := All.CheckURL(url); (err == nil) != private.lax {
			t.Errorf("%q with private addresses allowed: %v", url, err)
		}
	}
}

// Any server must read a path appended to a base URL as the whole rest of the URL.
func TestBaseURLsLeaveTheRestOfTheURLToUs(t *testing.T) {
	for raw, want := range map[string]string{
		"https://example.org":          "https://example.org/bot1:x/send",
		"https://example.org/":         "https://example.org/bot1:x/send",
		"https://example.org:8443/a/b": "https://example.org:8443/a/b/bot1:x/send",
		"https://example.org/v1.2/~x/": "https://example.org/v1.2/~x/bot1:x/send",
	} {
		u, err := (Targets{}).ParseBase(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if got := u.JoinPath("bot1:x", "send"); got.String() != want || !strings.HasPrefix(got.RequestURI(), "/") {
			t.Errorf("below %s is %s, requested as %s", raw, got, got.RequestURI())
		}
	}
	for _, raw := range []string{
		"https://example.org/#", "https://example.org/a#", "https://example.org#", "https://example.org/#/b", "https://example.org/?", "https://example.org?",
		"https://example.org/?a=b", "https://example.org/a%23", "https://example.org/a%3F", "https://example.org/a%00", "https://example.org/a%2f..", "https://example.org/a;b",
		"https://example.org/a/..", "https://example.org/./a", "https://example.org/..", "https://example.org/a\\..", "https://example.org/ä", "https://u@example.org/",
		"https://u:p@example.org", "https://@example.org", "ftp://example.org", "//example.org/a", "example.org", "", "https://exa\nmple.org", "https:///a",
	} {
		if u, err := All.ParseBase(raw); err == nil {
			t.Errorf("%q is taken as %s", raw, u)
		}
	}
}

func TestNetworksLeaveOutWhereCloudsKeepCredentials(t *testing.T) {
	for address, ok := range map[string]bool{
		"8.8.8.8:443": true, "10.0.0.1:80": true, "127.0.0.1:80": true, "[::1]:80": true, "[fd00::1]:80": true, "[::ffff:10.0.0.1]:80": true,
		"169.254.169.254:80": false, "[fe80::1]:80": false, "[fd00:ec2::254]:80": false, "[fd20:ce::254]:80": false, "168.63.129.16:80": false, "0.0.0.0:80": false,
		"[::]:80": false, "[::ffff:169.254.169.254]:80": false, "[64:ff9b::a9fe:a9fe]:80": false, "[64:ff9b::7f00:1]:80": false, "100.100.100.200:80": false,
		"[::127.0.0.1]:80": false, "224.0.0.1:80": false, "255.255.255.255:80": false,
	} {
		if err := Networks.control("", "tcp4", address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestPrivateAddressesAreNotDialledHoweverTheyAreWritten(t *testing.T) {
	reached := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := (Targets{}).Client(Options{})
	defer c.CloseIdleConnections()
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"} {
		resp, err := c.Get("http://" + host + ":" + port)
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, ErrPrivate) {
			t.Errorf("%s: %v", host, err)
		}
	}
	if reached {
		t.Error("the server was reached")
	}
}

// The check is made at the dial: only the dialled address counts, not the result of an earlier resolution.
func TestTheDialledAddressIsTheOneChecked(t *testing.T) {
	for address, ok := range map[string]bool{
		"8.8.8.8:443": true, "[2606:4700::1]:443": true,
		"10.0.0.1:443": false, "[64:ff9b::a00:1]:443": false, "[fe80::1%lo]:443": false, "/run/docker.sock": false, "localhost:1": false,
	} {
		if err := (Targets{}).control("", "tcp4", address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := (Targets{}).control("", "unix", "8.8.8.8:443"); !errors.Is(err, ErrPrivate) {
		t.Errorf("a socket file: %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	reached := false
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer target.Close()
	server := httptest.NewServer(http.RedirectHandler(target.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	c := All.Client(Options{})
	defer c.CloseIdleConnections()
	resp, err := c.Post(server.URL, "text/plain", strings.NewReader("token"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusTemporaryRedirect || reached {
		t.Errorf("status %d, target reached: %t", resp.StatusCode, reached)
	}
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://8.8.8.8:1")
	t.Setenv("http_proxy", "http://8.8.8.8:1")
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "direct") }))
	defer server.Close()
	c := All.Client(Options{})
	defer c.CloseIdleConnections()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	resp, err := c.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if b, err := io.ReadAll(resp.Body); string(b) != "direct" || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
}
