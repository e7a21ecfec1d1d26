package pushgate

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

func head(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestHeadersAreRefusedWithTheirNumbers(t *testing.T) {
	sealed := []string{"Content-Encoding", "aes128gcm"}
	old := []string{"Content-Encoding", "aesgcm", "Encryption", "salt=YWJj", "Crypto-Key", "dh=YWJj"}
	for _, c := range []struct {
		name  string
		h     http.Header
		size  int
		errno int // 0: accepted
	}{
		{"sealed", head(append(sealed, "TTL", "60")...), 100, 0},
		{"of the draft", head(append(old, "TTL", "60")...), 100, 0},
		{"no body needs no encryption", head("TTL", "60"), 0, 0},
		{"UnifiedPush", head(), 4096, 0},
		{"UnifiedPush, too long", head(), 4097, 104},
		{"no TTL", head(sealed...), 100, 111},
		{"no TTL and no body", head(), 0, 111},
		{"TTL of letters", head("TTL", "soon"), 0, 111},
		{"TTL with a sign", head("TTL", "+5"), 0, 111},
		{"TTL with a fraction", head("TTL", "1.5"), 0, 111},
		{"TTL below 0", head("TTL", "-1"), 0, 114},
		{"TTL without end", head("TTL", strings.Repeat("9", 500)), 0, 0},
		{"topic", head("TTL", "1", "Topic", "upd_-A9"), 0, 0},
		{"topic of 32", head("TTL", "1", "Topic", strings.Repeat("a", 32)), 0, 0},
		{"topic of 33", head("TTL", "1", "Topic", strings.Repeat("a", 33)), 0, 113},
		{"empty topic", head("TTL", "1", "Topic", ""), 0, 113},
		{"topic with a space", head("TTL", "1", "Topic", "a b"), 0, 113},
		{"topic with letters of another script", head("TTL", "1", "Topic", "тема"), 0, 113},
		{"topic with padding", head("TTL", "1", "Topic", "YQ=="), 0, 113},
		{"no encoding", head("TTL", "1"), 5, 110},
		{"another encoding", head("TTL", "1", "Content-Encoding", "gzip"), 5, 110},
		{"aes128gcm with a salt", head(append(sealed, "TTL", "1", "Encryption", "salt=YWJj")...), 5, 110},
		{"aes128gcm with a dh", head(append(sealed, "TTL", "1", "Crypto-Key", "dh=YWJj;p256ecdsa=YWJj")...), 5, 110},
		{"aes128gcm with a key of VAPID alone", head(append(sealed, "TTL", "1", "Crypto-Key", "p256ecdsa=YWJj")...), 5, 0},
		{"aesgcm without a salt", head("TTL", "1", "Content-Encoding", "aesgcm", "Crypto-Key", "dh=YWJj"), 5, 110},
		{"aesgcm without a dh", head("TTL", "1", "Content-Encoding", "aesgcm", "Encryption", "salt=YWJj"), 5, 110},
		{"aesgcm with junk", head("TTL", "1", "Content-Encoding", "aesgcm", "Encryption", "salt=YW Jj", "Crypto-Key", "dh=YWJj"), 5, 110},
		{"aesgcm with a key of an earlier draft", head(append(old, "TTL", "1", "Encryption-Key", "dh=YWJj")...), 5, 110},
		{"headers without end", head(append(old, "TTL", "1", "Encryption", "x="+strings.Repeat("a", maxHeader))...), 5, 110},
	} {
		_, err := readHeaders(c.h, c.size)
		errno := 0
		if why, ok := errors.AsType[*refusal](err); ok {
			errno = why.errno
		} else if err != nil {
			errno = -1
		}
		if errno != c.errno {
			t.Errorf("%s: errno %d (%v), want %d", c.name, errno, err, c.errno)
		}
	}
}

func TestHeadersSayHowAMessageTravels(t *testing.T) {
	s, err := readHeaders(head("TTL", "9999999", "Urgency", "high", "Content-Encoding", "aesgcm",
		"Encryption", `keyid="http://a.example/1";salt="XZwpw6o37R-6qoZjw6KwAw=="`, "Crypto-Key", `keyid=p;dh="YWJj==", p256ecdsa=YWJj`), 10)
	if err != nil {
		t.Fatal(err)
	}
	if s.ttl != notification.MaxTTL || s.priority != notification.High {
		t.Errorf("ttl %s, priority %s; want the longest and high", s.ttl, s.priority)
	}
	want := `{"encoding":"aesgcm","encryption":"keyid=http://a.example/1;salt=XZwpw6o37R-6qoZjw6KwAw","crypto_key":"keyid=p;dh=YWJj;p256ecdsa=YWJj"}`
	if s.headers != want {
		t.Errorf("headers %s,\nwant    %s", s.headers, want)
	}
	for urgency, want := range map[string]notification.Priority{"very-low": notification.Low, "low": notification.Low, "normal": notification.Normal, "": notification.Normal, "other": notification.Normal} {
		if s, err := readHeaders(head("TTL", "5", "Urgency", urgency), 0); err != nil || s.priority != want || s.ttl != 5*time.Second {
			t.Errorf("urgency %q is %s, ttl %s, %v; want %s", urgency, s.priority, s.ttl, err, want)
		}
	}
}

// FuzzHeaders checks that headers of senders are refused, or read so that devices get JSON and a message has a TTL, a topic and a key that can be stored.
func FuzzHeaders(f *testing.F) {
	f.Add("60", "Inbox", "high", "aesgcm", `keyid="a";salt="YWJj="`, `dh="YWJj",p256ecdsa=BA`, "vapid t=a.b.c, k=BAAA", uint16(100))
	f.Add("", "", "", "", "", "", "", uint16(4096))
	f.Add("0", "", "low", "aes128gcm", "", "p256ecdsa=YWJj", "WebPush a.b.c", uint16(0))
	f.Add("-1", "тема", "\x00", "gzip", "salt==", ";;,,=", "Bearer ", uint16(5630))
	f.Fuzz(func(t *testing.T, ttl, topic, urgency, coding, encryption, cryptoKey, auth string, size uint16) {
		h := head("TTL", ttl, "Topic", topic, "Urgency", urgency, "Content-Encoding", coding, "Encryption", encryption, "Crypto-Key", cryptoKey)
		if s, err := readHeaders(h, int(size)); err == nil {
			switch {
			case s.headers != "" && !json.Valid([]byte(s.headers)):
				t.Errorf("devices get %q, which is no JSON", s.headers)
			case s.ttl < 0 || s.ttl > notification.MaxTTL:
				t.Errorf("a TTL of %s", s.ttl)
			case len(s.topic) > 32 || s.topic != "" && !isBase64URL(s.topic):
				t.Errorf("the topic %q", s.topic)
			case s.headers == "" && size > maxRaw:
				t.Errorf("%d bytes without encryption", size)
			}
		}
		token, key := credential(auth, cryptoKey)
		public, err := senderKey(key)
		if err == nil && public != "" && (len(public) != 87 || !isBase64URL(public)) {
			t.Errorf("the key %q is stored as %q", key, public)
		}
		if _, err := verify(token, public); err == nil {
			t.Errorf("a token of junk is verified: %q", auth)
		}
	})
}
