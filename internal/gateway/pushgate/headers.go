package pushgate

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// sent is what the headers of a sender's request say.
type sent struct {
	ttl      time.Duration
	topic    string
	priority notification.Priority
	headers  string // that travel with the message, as JSON; empty: none
}

// readHeaders reads the headers of a message with a body of size bytes. A message without TTL and encryption is one of UnifiedPush.
func readHeaders(h http.Header, size int) (s sent, err error) {
	raw := size > 0 && h.Get("TTL") == "" && h.Get("Content-Encoding") == ""
	if raw {
		s.ttl = defaultTTL
	} else if s.ttl, err = readTTL(h.Get("TTL")); err != nil {
		return s, err
	}
	if s.topic = h.Get("Topic"); s.topic != "" || len(h["Topic"]) > 0 {
		if len(s.topic) < 1 || len(s.topic) > 32 || !isBase64URL(s.topic) {
			return s, errTopic
		}
	}
	switch h.Get("Urgency") {
	case "very-low", "low":
		s.priority = notification.Low
	case "high":
		s.priority = notification.High
	}
	switch {
	case raw && size > maxRaw:
		return s, errTooLarge
	case !raw && size > 0:
		s.headers, err = readEncryption(h)
	}
	return s, err
}

// readTTL reads seconds; too many of them become as many as a message may wait.
func readTTL(text string) (time.Duration, error) {
	digits, negative := strings.CutPrefix(text, "-")
	if digits == "" {
		return 0, errNoTTL
	}
	const most = int64(notification.MaxTTL / time.Second)
	var n int64
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, errNoTTL
		}
		n = min(10*n+int64(c-'0'), most)
	}
	if negative && n > 0 {
		return 0, errPastTTL
	}
	return time.Duration(n) * time.Second, nil
}

// readEncryption checks the headers of a message's encryption, and returns those that the receiver needs.
func readEncryption(h http.Header) (string, error) {
	encryption, cryptoKey := strings.Join(h["Encryption"], ","), strings.Join(h["Crypto-Key"], ",")
	if len(encryption)+len(cryptoKey) > maxHeader {
		return "", badEncryption("Encryption and Crypto-Key are too long")
	}
	var out struct {
		Encoding   string `json:"encoding"`
		Encryption string `json:"encryption,omitempty"`
		CryptoKey  string `json:"crypto_key,omitempty"`
	}
	switch out.Encoding = h.Get("Content-Encoding"); out.Encoding {
	case "aes128gcm": // RFC 8291: all is in the body
		if _, has := parameter(encryption, "salt"); has {
			return "", badEncryption("Encryption has no salt with aes128gcm: it is in the body")
		}
		if _, has := parameter(cryptoKey, "dh"); has {
			return "", badEncryption("Crypto-Key has no dh with aes128gcm: it is in the body")
		}
	case "aesgcm": // draft-ietf-webpush-encryption-04
		if salt, _ := parameter(encryption, "salt"); !isBase64URL(strings.TrimRight(salt, "=")) {
			return "", badEncryption("Encryption needs a salt in base64url with aesgcm")
		}
		if dh, _ := parameter(cryptoKey, "dh"); !isBase64URL(strings.TrimRight(dh, "=")) {
			return "", badEncryption("Crypto-Key needs a dh in base64url with aesgcm")
		}
		if h.Get("Encryption-Key") != "" {
			return "", badEncryption("Encryption-Key is of an earlier draft: send Crypto-Key")
		}
		out.Encryption, out.CryptoKey = plain(encryption), plain(cryptoKey)
	case "":
		return "", badEncryption("Content-Encoding is missing: a message with a body is encrypted")
	default:
		return "", badEncryption("Content-Encoding must be aes128gcm or aesgcm")
	}
	b, err := json.Marshal(out)
	return string(b), err
}

// parameter finds a parameter in a header of the drafts, such as keyid="a";salt="b".
func parameter(header, name string) (value string, found bool) {
	for part := range strings.FieldsFuncSeq(header, func(r rune) bool { return r == ',' || r == ';' }) {
		key, v, ok := strings.Cut(strings.TrimSpace(part), "=")
		if ok && strings.EqualFold(strings.TrimSpace(key), name) {
			return strings.Trim(strings.TrimSpace(v), `"`), true
		}
	}
	return "", false
}

// plain removes quotes and padding from a header's parameters, as receivers expect them.
func plain(header string) string {
	parts := strings.FieldsFunc(strings.ReplaceAll(header, `"`, ""), func(r rune) bool { return r == ',' || r == ';' })
	for i, p := range parts {
		parts[i] = strings.TrimRight(strings.TrimSpace(p), "=")
	}
	return strings.Join(parts, ";")
}

// isBase64URL reports whether a text has only characters of base64url, and at least one.
func isBase64URL(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_':
		default:
			return false
		}
	}
	return s != ""
}
