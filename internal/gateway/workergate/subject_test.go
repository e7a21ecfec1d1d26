package workergate

import (
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/messaging/topic"
)

func TestSubjectOfACall(t *testing.T) {
	for _, c := range []struct{ service, method, path, want string }{
		{"orders", "GET", "/", "orders.get"},
		{"orders", "GET", "/17/items", "orders.get.17.items"},
		{"orders", "POST", "/17/", "orders.post.17"},
		{"orders", "M-SEARCH", "/a.b/c%2Fd", "orders.m-search.a%2Eb.c%2Fd"},
		{"a.t", "GET", "/*/>", "a%2Et.get.%2A.%3E"},
		{"orders", "GET", "/a//b", "orders.get.a._.b"},
		{"orders", "GET", "/" + strings.Repeat("x/", 12) + "y", "orders.get" + strings.Repeat(".x", 12) + "._"},
		{"orders", "GET", "/" + strings.Repeat("x/", 11) + "y", "orders.get" + strings.Repeat(".x", 11) + ".y"},
		{"orders", "GET", "/" + strings.Repeat("x", 300), "orders.get._"},
	} {
		got := Subject(c.service, c.method, c.path)
		if got != c.want {
			t.Errorf("%s %s of %s asks %s, want %s", c.method, c.path, c.service, got, c.want)
		}
	}
}

func FuzzSubject(f *testing.F) {
	f.Add("orders", "GET", "/a/../b%2E/é")
	f.Fuzz(func(t *testing.T, service, method, path string) {
		if access.CheckService(service) != nil || method == "" || len(method) > 20 {
			return
		}
		if err := topic.CheckName("subject", Subject(service, method, path)); err != nil {
			t.Errorf("%s %q of %s: %v", method, path, service, err)
		}
	})
}

func TestSplitKeepsItsWeights(t *testing.T) {
	s := access.Service{Split: map[string]int{"a": 95, "a@2": 5}}
	counts := map[string]int{}
	for range 10_000 {
		counts[side(s, "a", "")]++
	}
	if n := counts["a@2"]; counts["a"]+n != 10_000 || n < 350 || n > 650 {
		t.Errorf("of 10,000 calls %v went each way", counts)
	}
	first := side(s, "a", "caller-7")
	for range 100 {
		if side(s, "a", "caller-7") != first {
			t.Fatal("a caller with a key does not stay on its side")
		}
	}
	if got := side(access.Service{}, "b", "k"); got != "b" {
		t.Errorf("without a split a call of b goes to %s", got)
	}
}
