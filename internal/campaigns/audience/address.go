package audience

import (
	"bytes"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	maxURL       = 2048 // URLs of push services have about 200 bytes, Apple's and Windows's up to 800
	maxToken     = 4096 // FCM documents no limit; tokens have about 160 bytes
	leastDigits  = 64   // of an APNs token, which has always been 32 bytes
	mostDigits   = 256  // Apple announces that tokens may become longer; today's have up to 160
	maxChatName  = 33   // @ and a public name
	p256dhBytes  = 65   // an uncompressed P-256 point (RFC 8291, section 3.1)
	authBytes    = 16   // the authentication secret (RFC 8291, section 3.2)
	maxAddressIn = 16 << 10
)

// WebPushAddress is a browser's push subscription.
type WebPushAddress struct {
	Endpoint string      `json:"endpoint"`
	Keys     WebPushKeys `json:"keys"`
}

// WebPushKeys are a subscription's keys, base64url without padding.
type WebPushKeys struct {
	P256DH string `json:"p256dh"`
	Auth   string `json:"auth"`
}

// NormalAddress validates a channel's address and returns its normal form, without the parts that sending does not need. It does not check
// whether URLs lead to public addresses: the client does when it dials, because names may resolve differently then.
func NormalAddress(ch push.Channel, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) > maxAddressIn {
		return nil, notification.BadField("address", "has %d bytes; at most %d are allowed", len(raw), maxAddressIn)
	}
	if ch == push.Live && (len(raw) == 0 || string(raw) == "null") {
		raw = json.RawMessage(`{}`)
	}
	var fields map[string]json.RawMessage
	d := ch.Find()
	switch {
	case ch == "":
		return nil, notification.BadField("channel", "is required")
	case d == nil:
		return nil, notification.BadField("channel", "%.40q is not a channel", ch)
	case len(raw) == 0 || string(raw) == "null":
		return nil, notification.BadField("address", "is required")
	case json.Unmarshal(raw, &fields) != nil || fields == nil:
		return nil, notification.BadField("address", "must be an object")
	}
	var v any
	var err error
	switch ch {
	case push.WebPush:
		v, err = webPushAddress(fields)
	case push.Telegram:
		v, err = telegramAddress(fields)
	case push.FCM:
		v, err = tokenAddress(fields, fcmToken)
	case push.APNs:
		v, err = tokenAddress(fields, apnsToken)
	case push.LiveActivityStart:
		v, err = startAddress(fields)
	case push.LiveActivity:
		v, err = activityAddress(fields)
	case push.Webhook:
		v, err = webhookAddress(fields)
	case push.Live:
		v, err = struct{}{}, only(fields)
	default:
		v, err = d.Address(fields)
	}
	if err != nil {
		return nil, err
	}
	return marshal(v)
}

// MarshalAddress encodes an address as JSON.
func MarshalAddress(v any) (json.RawMessage, error) { return marshal(v) }

// marshal encodes JSON without the escapes that only HTML needs, because URLs contain many &.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return json.RawMessage(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), err
}

// AddressKey identifies an address: an app has at most one endpoint with the same key.
func AddressKey(e *Endpoint) (key [16]byte) {
	var a struct {
		Endpoint string          `json:"endpoint"`
		ChatID   json.RawMessage `json:"chat_id"`
		Thread   int64           `json:"message_thread_id"`
		Token    string          `json:"token"`
		Channel  string          `json:"channel_id"`
		URL      string          `json:"url"`
	}
	_ = json.Unmarshal(e.Address, &a) // cannot fail: addresses in normal form are JSON
	one := a.Endpoint + chatKey(string(a.ChatID), a.Thread) + a.Token + a.Channel + a.URL
	switch d := e.Channel.Find(); {
	case e.Channel == push.Live:
		one = e.Recipient
	case d != nil && d.Address != nil:
		one = string(e.Address)
	}
	return keyOf(e.Channel, one)
}

// chatKey returns the key of a chat. Telegram compares chat names case-insensitively.
func chatKey(chat string, thread int64) string { return formerChatKey(strings.ToLower(chat), thread) }

func formerChatKey(chat string, thread int64) string {
	if thread != 0 {
		chat += "/" + strconv.FormatInt(thread, 10)
	}
	return chat
}

func keyOf(ch push.Channel, one string) (key [16]byte) {
	sum := sha256.Sum256([]byte(string(ch) + "\x00" + one))
	copy(key[:], sum[:])
	return key
}

// FormerKey returns the key under which former versions stored the same address in another spelling: an APNs token in capitals, or the name
// of a Telegram chat as written. ok is false if there is no other spelling.
func FormerKey(e *Endpoint) (key [16]byte, ok bool) {
	if e.Channel != push.APNs && e.Channel != push.Telegram {
		return key, false
	}
	var a struct {
		Token  string          `json:"token"`
		ChatID json.RawMessage `json:"chat_id"`
		Thread int64           `json:"message_thread_id"`
	}
	_ = json.Unmarshal(e.Address, &a) // cannot fail: addresses in normal form are JSON
	if e.Channel == push.Telegram {
		written := formerChatKey(string(a.ChatID), a.Thread)
		return keyOf(e.Channel, written), written != chatKey(string(a.ChatID), a.Thread)
	}
	capitals := strings.ToUpper(a.Token)
	return keyOf(e.Channel, capitals), capitals != strings.ToLower(a.Token)
}

// SameHolder reports whether two addresses of one channel, equal by AddressKey, also share their secrets: then the caller with the second
// address is the one who registered the first. If an address contains no secret, the result is false, because knowing it proves nothing.
func SameHolder(ch push.Channel, a, b json.RawMessage) bool {
	switch ch {
	case push.APNs:
		return strings.EqualFold(string(a), string(b))
	case push.WebPush, push.FCM:
		return bytes.Equal(a, b)
	case push.LiveActivity, push.LiveActivityStart: // who knows the token may have it follow another object
		x, y := activityToken(a), activityToken(b)
		return x != "" && x == y
	}
	return false
}

// only rejects fields that the channel's addresses do not have.
func only(fields map[string]json.RawMessage, known ...string) error {
	for name := range fields {
		if !slices.Contains(known, name) {
			return notification.BadField("address."+notification.Clip(name), "is not a known field")
		}
	}
	return nil
}

func webPushAddress(fields map[string]json.RawMessage) (a WebPushAddress, err error) {
	// Every browser's subscription has expirationTime. It is ignored: push services answer 410 when a subscription ends.
	if err := only(fields, "endpoint", "keys", "expirationTime"); err != nil {
		return a, err
	}
	if json.Unmarshal(fields["endpoint"], &a.Endpoint) != nil {
		return a, notification.BadField("address.endpoint", "is required: send the subscription as the browser's JSON.stringify gives it")
	}
	if err := checkURL("address.endpoint", a.Endpoint); err != nil {
		return a, err
	}
	if json.Unmarshal(fields["keys"], &a.Keys) != nil {
		return a, notification.BadField("address.keys", "is required: an object with p256dh and auth")
	}
	point, err := keyBytes("address.keys.p256dh", a.Keys.P256DH, p256dhBytes)
	if err != nil {
		return a, err
	}
	if _, err := ecdh.P256().NewPublicKey(point); err != nil {
		return a, notification.BadField("address.keys.p256dh", "is not an uncompressed point on P-256")
	}
	auth, err := keyBytes("address.keys.auth", a.Keys.Auth, authBytes)
	a.Keys = WebPushKeys{P256DH: base64.RawURLEncoding.EncodeToString(point), Auth: base64.RawURLEncoding.EncodeToString(auth)}
	return a, err
}

// keyBytes decodes base64 of either alphabet, with or without padding: browsers and exports differ.
func keyBytes(field, s string, want int) ([]byte, error) {
	plain := strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(s, "="))
	b, err := base64.RawURLEncoding.DecodeString(plain)
	if err != nil || len(b) != want {
		return nil, notification.BadField(field, "is not base64 of %d bytes", want)
	}
	return b, nil
}

func telegramAddress(fields map[string]json.RawMessage) (v any, err error) {
	if err := only(fields, "chat_id", "message_thread_id"); err != nil {
		return nil, err
	}
	var thread int64
	if raw, ok := fields["message_thread_id"]; ok && (json.Unmarshal(raw, &thread) != nil || thread < 1) {
		return nil, notification.BadField("address.message_thread_id", "must be the number of a topic in a forum")
	}
	raw := fields["chat_id"]
	text := strings.TrimSpace(strings.Trim(string(raw), `"`))
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n != 0 {
		return struct {
			ChatID int64 `json:"chat_id"`
			Thread int64 `json:"message_thread_id,omitempty"`
		}{n, thread}, nil
	}
	if len(text) > 1 && len(text) <= maxChatName && text[0] == '@' && !strings.ContainsFunc(text[1:], func(r rune) bool { return r > 0x7f || !nameByte(byte(r), false) }) {
		return struct {
			ChatID string `json:"chat_id"`
			Thread int64  `json:"message_thread_id,omitempty"`
		}{text, thread}, nil
	}
	return nil, notification.BadField("address.chat_id", "must be a chat's number or a public name like @channel")
}

// tokenAddress parses {"token"} and returns the address with the token in normal form.
func tokenAddress(fields map[string]json.RawMessage, normal func(string) (string, error)) (v any, err error) {
	if err := only(fields, "token"); err != nil {
		return nil, err
	}
	var a struct {
		Token string `json:"token"`
	}
	if json.Unmarshal(fields["token"], &a.Token) != nil || a.Token == "" {
		return nil, notification.BadField("address.token", "is required: a device's token")
	}
	a.Token, err = normal(strings.TrimSpace(a.Token))
	return a, err
}

// fcmToken validates a registration token by its alphabet.
func fcmToken(token string) (string, error) {
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool {
		return r > 0x7f || !nameByte(byte(r), false) && !strings.ContainsRune(":-_.~%+/=", r)
	}) {
		return "", notification.BadField("address.token", "must be an FCM registration token: 1 to %d letters, digits and - _ : . ~ %% + / =", maxToken)
	}
	return token, nil
}

// apnsToken returns a device token in lower-case hexadecimal digits. Some libraries write capitals, and old apps describe the bytes like
// <0a1b2c3d 4e5f6071>.
func apnsToken(token string) (string, error) {
	digits := token
	if inner, ok := strings.CutPrefix(token, "<"); ok && strings.HasSuffix(inner, ">") {
		digits = strings.ReplaceAll(strings.TrimSuffix(inner, ">"), " ", "")
	}
	switch _, err := hex.DecodeString(digits); {
	case err != nil:
		return "", notification.BadField("address.token", "must be an APNs device token: an even number of hexadecimal digits")
	case len(digits) < leastDigits || len(digits) > mostDigits:
		return "", notification.BadField("address.token", "has %d hexadecimal digits; APNs device tokens have %d to %d", len(digits), leastDigits, mostDigits)
	}
	return strings.ToLower(digits), nil
}

func webhookAddress(fields map[string]json.RawMessage) (v any, err error) {
	if err := only(fields, "url"); err != nil {
		return nil, err
	}
	var a struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(fields["url"], &a.URL) != nil {
		return nil, notification.BadField("address.url", "is required")
	}
	return a, checkURL("address.url", a.URL)
}

// CheckURLs checks the URLs of an address, as far as this is possible without DNS: the sender's client checks again when it dials.
func CheckURLs(e *Endpoint, check func(raw string) error) error {
	var a struct {
		Endpoint string `json:"endpoint"`
		URL      string `json:"url"`
	}
	if err := json.Unmarshal(e.Address, &a); err != nil {
		return notification.BadField("address", "must be an object")
	}
	for field, raw := range map[string]string{"address.endpoint": a.Endpoint, "address.url": a.URL} {
		if raw == "" {
			continue
		}
		if err := check(raw); err != nil {
			return notification.BadField(field, "%s", err)
		}
	}
	return nil
}

// checkURL validates a URL by the rules that always apply. It allows http for tests and closed networks: see CheckURLs.
func checkURL(field, raw string) error {
	if len(raw) > maxURL {
		return notification.BadField(field, "has %d bytes; at most %d are allowed", len(raw), maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || strings.Contains(raw, "#") {
		return notification.BadField(field, "must be a URL like https://host/path, without user or fragment")
	}
	return nil
}
