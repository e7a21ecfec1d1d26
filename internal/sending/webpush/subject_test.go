package webpush

import (
	"strings"
	"testing"
)

func TestOnlyContactsThatOthersCanReachAreSetAsSubject(t *testing.T) {
	for _, good := range []string{
		"", "mailto:a@example.org", "mailto:a.b+c@mail.example.co.uk", "mailto:ops@münchen.example", "https://example.org", "https://example.org:8443/contact?x=1", "mailto:a@xn--mnchen-3ya.de",
		"mailto:ops@example.org?subject=push",
	} {
		if err := CheckSubject(good); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
	}
	for _, bad := range []string{
		"mailto:a@localhost", "mailto:a@host", "mailto:a@127.0.0.1", "mailto:a@[::1]", "mailto:a@192.168.1.4", "mailto:a@pc.local", "mailto:a@x.internal", "mailto:a@x.test", "mailto:a@.org", "mailto:a@x.", "mailto:a@-x.org",
		"mailto:@example.org", "mailto:a", "mailto:a@b@example.org", "mailto:a@example.org,b@example.org", "mailto:A <a@example.org>", "mailto: a@example.org",
		"https://localhost", "https://localhost:8080/x", "https://10.0.0.1/contact", "https://[2001:db8::1]/", "https://host/", "https:///x", "http://example.org", "https://u:p@example.org",
		"a@example.org", "ftp://example.org", "mailto:a@x.c", "mailto:a@example.123", "mailto:" + strings.Repeat("a", 300) + "@example.org",
	} {
		if CheckSubject(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestASubjectOfAFormerVersionGoesOnWithAdvice(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for subject, advised := range map[string]bool{"mailto:a@localhost": true, "https://10.0.0.1/": true, "mailto:a@example.org": false, "": false} {
		s, err := New(Config{Key: key, Subject: subject})
		if err != nil {
			t.Fatalf("%q: %v", subject, err)
		}
		if (s.Advice() != "") != advised {
			t.Errorf("%q: advice %q", subject, s.Advice())
		}
		_ = s.Close()
	}
}
