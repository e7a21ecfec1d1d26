package webhost_test

import (
	"testing"

	"godwit.dev/godwit/internal/access/webhost"
)

func TestHostsAreWrittenAsBrowsersSendThem(t *testing.T) {
	for _, c := range []struct{ scheme, host, want string }{
		{"https", "push.example.org", "push.example.org"},
		{"https", "Push.EXAMPLE.org:443", "push.example.org"},
		{"https", "push.example.org:0443", "push.example.org"},
		{"https", "push.example.org:", "push.example.org"},
		{"https", "push.example.org:80", "push.example.org:80"},
		{"http", "push.example.org:80", "push.example.org"},
		{"http", "push.example.org:08080", "push.example.org:8080"},
		{"https", "bücher.example", "xn--bcher-kva.example"},
		{"https", "BÜCHER.Example:8443", "xn--bcher-kva.example:8443"},
		{"https", "straße.example", "xn--strae-oqa.example"},
		{"https", "пример.испытание", "xn--e1afmkfd.xn--80akhbyknj4f"},
		{"https", "例え。テスト", "xn--r8jz45g.xn--zckzah"},
		{"https", "XN--BCHER-KVA.example", "xn--bcher-kva.example"},
		{"https", "[2001:DB8:0::1]:443", "[2001:db8::1]"},
		{"https", "[2001:DB8:0::1]:8443", "[2001:db8::1]:8443"},
		{"http", "[::1]", "[::1]"},
		{"http", "192.0.2.7:80", "192.0.2.7"},
		{"https", "a_b.example", "a_b.example"},
		{"https", "", ""},
	} {
		if got := webhost.Authority(c.scheme, c.host); got != c.want {
			t.Errorf("%s://%s is %q, want %q", c.scheme, c.host, got, c.want)
		}
	}
}
