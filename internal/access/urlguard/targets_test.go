package urlguard

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func parse(t *testing.T, entries ...string) Targets {
	t.Helper()
	targets, err := ParseTargets(entries)
	if err != nil {
		t.Fatal(err)
	}
	return targets
}

func TestTheOperatorsListDecidesWhereURLsLead(t *testing.T) {
	const hint = "the operator may allow it with allow_targets"
	for _, c := range []struct{ list, url, refused string }{
		{"", "https://example.org/", ""},
		{"", "http://example.org/", "plain http:// is for hosts that the operator names in allow_targets"},
		{"", "https://10.0.0.5/", "leads to 10.0.0.5, which is not public: " + hint},
		{"", "https://[::ffff:10.0.0.5]/", "leads to 10.0.0.5, which is not public: " + hint},
		{"", "https://localhost/", "leads to 127.0.0.1, which is not public: " + hint},
		{"10.0.0.0/8", "https://10.0.0.5/", ""},
		{"10.0.0.0/8", "http://10.0.0.5:9000/a", ""},
		{"10.0.0.0/8", "http://[::ffff:10.0.0.5]/", ""},
		{"10.0.0.0/8", "https://192.168.0.1/", "not public: " + hint},
		{"10.0.0.0/8", "http://hooks.internal/", "plain http://"},
		{"10.0.0.0/8", "https://hooks.internal/", ""}, // the dial decides
		{"10.0.0.0/8", "https://127.0.0.1/", hint},
		{"10.0.0.5", "http://10.0.0.5/", ""},
		{"10.0.0.5", "http://10.0.0.6/", "plain http://"},
		{"10.0.0.5:8443", "https://10.0.0.5:8443/", ""},
		{"10.0.0.5:443", "https://10.0.0.5/", ""},
		{"10.0.0.5:80", "http://10.0.0.5/", ""},
		{"10.0.0.5:8443", "https://10.0.0.5/", hint},
		{"[fd00::5]:8443", "https://[fd00::5]:8443/", ""},
		{"fd00::/8", "http://[fd12::1]/", ""},
		{"fd00::/8", "https://[fd00:ec2::254]/", "naming exactly this address"},
		{"hooks.internal:8443", "https://hooks.internal:8443/x", ""},
		{"hooks.internal:8443", "http://HOOKS.internal.:8443/x", ""},
		{"hooks.internal:8443", "http://hooks.internal/x", "plain http://"},
		{"hooks.internal:8443", "http://evil.hooks.internal:8443/x", "plain http://"},
		{"hooks.internal", "http://hooks.internal:1234/x", ""},
		{"localhost:9900", "http://localhost:9900/h", ""},
		{"localhost:9900", "http://127.0.0.1:9900/h", "plain http://"},
		{"127.0.0.1", "http://localhost:9900/h", ""},
		{"127.0.0.1", "http://a.localhost:9900/h", ""},
		{"::1", "http://localhost:9900/h", ""},
		{"127.0.0.1", "http://0x7f.1:9900/h", "plain http://"},
		{"127.0.0.0/8", "https://2130706433/", "has a number for a host"},
		{"127.0.0.0/8", "https://0.0.0.0/", "leads to 0.0.0.0"},
		{"0.0.0.0/0,::/0", "http://10.0.0.5/", ""},
		{"0.0.0.0/0,::/0", "https://169.254.169.254/", "where clouds keep credentials"},
		{"0.0.0.0/0,::/0", "http://169.254.169.254/", "plain http://"},
		{"0.0.0.0/0,::/0", "https://[::ffff:169.254.169.254]/", "where clouds keep credentials"},
		{"0.0.0.0/0,::/0", "https://[64:ff9b::a9fe:a9fe]/", "where clouds keep credentials"},
		{"0.0.0.0/0,::/0", "https://[64:ff9b:1::a9fe:a9fe]/", "where clouds keep credentials"},
		{"0.0.0.0/0,::/0", "https://[::a9fe:a9fe]/", "where clouds keep credentials"},
		{"0.0.0.0/0,::/0", "https://[2002:a9fe:a9fe::]/", "where clouds keep credentials"},
		{"0.0.0.0/0,::/0", "https://[fe80::1]/", "where clouds keep credentials"},
		{"0.0.0.0/0,::/0", "https://[fe80::1%25eth0]/", "where clouds keep credentials"},
		{"0.0.0.0/0,::/0", "https://168.63.129.16/", "where clouds keep credentials"},
		{"0.0.0.0/0,::/0", "https://100.100.100.200/", "where clouds keep credentials"},
		{"0.0.0.0/0,::/0", "https://[fd20:ce::254]/", "where clouds keep credentials"},
		{"0.0.0.0/0,::/0", "https://[::]/", "leads to ::"},
		{"169.254.0.0/16", "https://169.254.169.254/", "naming exactly this address in allow_targets"},
		{"169.254.169.254", "http://169.254.169.254/latest", ""},
		{"169.254.169.254/32", "http://169.254.169.254/latest", ""},
		{"169.254.169.254:80", "http://169.254.169.254/latest", ""},
		{"169.254.169.254:80", "https://169.254.169.254/latest", "naming exactly"},
		{"8.8.8.8,example.org", "http://8.8.8.8/", ""},
		{"8.8.8.8,example.org", "http://example.org/", ""},
		{"10.0.0.0/8", "ftp://10.0.0.5/", "must begin with https://"},
		{"10.0.0.0/8", "http://u@10.0.0.5/", "must not contain a user"},
		{"10.0.0.0/8", "http://10.0.0.5/#", "must not contain a fragment"},
	} {
		err := parse(t, strings.FieldsFunc(c.list, func(r rune) bool { return r == ',' })...).CheckURL(c.url)
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("with %q, %s: %v", c.list, c.url, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("with %q, %s: %v, want %q", c.list, c.url, err, c.refused)
		}
	}
}

// A host that the list names may have any address at the dial, and other hosts only addresses that the list has.
func TestTheDialSeesTheHostAndItsAddress(t *testing.T) {
	for _, c := range []struct {
		list, host, address string
		ok                  bool
	}{
		{"", "hooks.internal", "8.8.8.8:443", true},
		{"", "hooks.internal", "10.0.0.5:443", false},
		{"10.0.0.0/8", "hooks.internal", "10.0.0.5:443", true},
		{"10.0.0.0/8", "hooks.internal", "192.168.0.5:443", false},
		{"10.0.0.0/8", "hooks.internal", "[::ffff:10.0.0.5]:443", true},
		{"10.0.0.5:8443", "hooks.internal", "10.0.0.5:443", false},
		{"hooks.internal", "hooks.internal", "10.0.0.5:443", true},
		{"hooks.internal", "hooks.internal", "127.0.0.1:443", true},
		{"hooks.internal", "hooks.internal", "100.64.0.9:443", true},
		{"hooks.internal", "other.internal", "10.0.0.5:443", false},
		{"hooks.internal", "10.0.0.5", "10.0.0.5:443", false},
		{"hooks.internal", "", "10.0.0.5:443", false},
		{"hooks.internal:8443", "hooks.internal", "10.0.0.5:8443", true},
		{"hooks.internal:8443", "hooks.internal", "10.0.0.5:22", false},
		{"hooks.internal", "hooks.internal", "169.254.169.254:80", false},
		{"hooks.internal", "hooks.internal", "[fd00:ec2::254]:80", false},
		{"hooks.internal", "hooks.internal", "168.63.129.16:80", false},
		{"hooks.internal", "hooks.internal", "[fe80::1%lo]:80", false},
		{"hooks.internal", "hooks.internal", "0.0.0.0:80", false},
		{"hooks.internal,169.254.169.254", "hooks.internal", "169.254.169.254:80", true},
	} {
		err := parse(t, strings.FieldsFunc(c.list, func(r rune) bool { return r == ',' })...).control(c.host, "tcp4", c.address)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrPrivate) {
			t.Errorf("with %q, %q at %s: %v", c.list, c.host, c.address, err)
		}
	}
}

func TestWrittenTargetsAreForHostsThatTheListNames(t *testing.T) {
	list := parse(t, "10.0.0.0/8", "hooks.internal", "127.0.0.1").Written()
	for _, c := range []struct {
		host, address string
		ok            bool
	}{
		{"10.0.0.5", "10.0.0.5:443", true},
		{"hooks.internal", "10.0.0.5:443", true},
		{"hooks.internal", "192.168.0.1:443", true},
		{"localhost", "127.0.0.1:443", true},
		{"alias.internal", "10.0.0.5:443", false},
		{"alias.internal", "8.8.8.8:443", true},
	} {
		if err := list.control(c.host, "tcp4", c.address); (err == nil) != c.ok {
			t.Errorf("%s at %s: %v", c.host, c.address, err)
		}
	}
}

func TestUnusableEntriesAreNamed(t *testing.T) {
	for entry, want := range map[string]string{
		"http://hooks.internal":   "is a URL: write the host alone",
		"10.0.0.5/8":              "write 10.0.0.0/8 for the network, or 10.0.0.5 for the address",
		"10.0.0.0/33":             "is no prefix",
		"10.0.0.0/8:443":          "is no prefix",
		"::ffff:10.0.0.0/104":     "is no prefix",
		"*.internal":              "has a wildcard",
		"hooks.internal:0":        "has no port",
		"hooks.internal:http":     "has no port",
		"hooks.internal:99999":    "has no port",
		"fe80::1%eth0":            "has a zone",
		"0x7f.1":                  "has a number for a host",
		"127.1":                   "has a number for a host",
		"hooks internal":          "is neither a prefix nor an address nor a host",
		"hooks..internal":         "is neither",
		".":                       "is neither",
		"[::1]":                   "is neither",
		"bücher.internal":         "xn--",
		"a:b:c":                   "is neither",
		strings.Repeat("a.", 130): "has more than 253 bytes",
	} {
		_, err := ParseTargets([]string{"10.0.0.0/8", entry})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("%.20q", entry)[:3]) {
			t.Errorf("%q: %v, want %q", entry, err, want)
		}
	}
	if _, err := ParseTargets(make([]string, MaxTargets+1)); err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Error(err)
	}
}

// What visitors and clients give is not for the operator's list, and tells them no address.
func TestStrangersGetNothingOfTheList(t *testing.T) {
	list := parse(t, "127.0.0.0/8", "localhost").And(Loopback)
	for _, url := range []string{"https://127.0.0.1/", "https://localhost/", "http://example.org/"} {
		err := list.Strangers().CheckURL(url)
		if err == nil || strings.Contains(err.Error(), "allow_targets") || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if err := list.Strangers().control("localhost", "tcp4", "127.0.0.1:80"); err == nil || strings.Contains(err.Error(), "127.0.0.1") {
		t.Error(err)
	}
	if err := All.Strangers().CheckURL("http://127.0.0.1/"); err != nil {
		t.Error(err)
	}
}

func TestClientsReachNamedHostsAlone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		list, host string
		ok         bool
	}{
		{"127.0.0.0/8", "127.0.0.1", true},
		{"127.0.0.0/8", "localhost", true},
		{"127.0.0.1:" + port, "127.0.0.1", true},
		{"127.0.0.1:1", "127.0.0.1", false},
		{"localhost", "LOCALHOST", true},
		{"localhost:" + port, "localhost", true},
		{"localhost:1", "localhost", false},
		{"localhost", "127.0.0.1", false},
		{"10.0.0.0/8", "127.0.0.1", false},
	} {
		client := parse(t, c.list).Client(Options{})
		resp, err := client.Get("http://" + c.host + ":" + port)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrPrivate) {
			t.Errorf("with %s, %s: %v", c.list, c.host, err)
		}
		client.CloseIdleConnections()
	}
}
