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

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// channels are the channels of endpoints. Whether a server can send over one depends on its settings.
var channels = []push.Channel{push.Live, push.WebPush, push.FCM, push.APNs, push.Telegram, push.Webhook}

// Known reports whether a channel can have endpoints.
func Known(ch push.Channel) bool { return slices.Contains(channels, ch) }

// Channels lists the channels that endpoints may have.
func Channels() []push.Channel { return slices.Clone(channels) }

const (
	maxURL       = 2048 // push services' URLs have some 200 bytes, Apple's and Windows's up to 800
	maxToken     = 4096 // FCM documents no limit; tokens have some 160 bytes
	leastDigits  = 64   // of an APNs token: 32 bytes since there are any
	mostDigits   = 256  // Apple says that they may become longer; those of today have up to 160
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

// NormalAddress checks an address of a channel and returns it in its one form, without what is not needed to send.
// Whether URLs lead to public addresses is checked when they are dialled, since names change what they mean.
func NormalAddress(ch push.Channel, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) > maxAddressIn {
		return nil, notification.BadField("address", "has %d bytes; at most %d are allowed", len(raw), maxAddressIn)
	}
	if ch == push.Live && (len(raw) == 0 || string(raw) == "null") {
		raw = json.RawMessage(`{}`)
	}
	var fields map[string]json.RawMessage
	switch {
	case ch == "":
		return nil, notification.BadField("channel", "is required")
	case !Known(ch):
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
	case push.Webhook:
		v, err = webhookAddress(fields)
	default:
		v, err = struct{}{}, only(fields)
	}
	if err != nil {
		return nil, err
	}
	return marshal(v)
}

// MarshalAddress writes an address as JSON.
func MarshalAddress(v any) (json.RawMessage, error) { return marshal(v) }

// marshal writes JSON without the escapes that only HTML needs: URLs are full of &.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return json.RawMessage(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), err
}

// AddressKey is what makes an address one and the same: an app has one endpoint of each.
func AddressKey(e *Endpoint) (key [16]byte) {
	var a struct {
		Endpoint string          `json:"endpoint"`
		ChatID   json.RawMessage `json:"chat_id"`
		Thread   int64           `json:"message_thread_id"`
		Token    string          `json:"token"`
		URL      string          `json:"url"`
	}
	_ = json.Unmarshal(e.Address, &a) // in its normal form: it is JSON
	one := a.Endpoint + chatKey(string(a.ChatID), a.Thread) + a.Token + a.URL
	if e.Channel == push.Live {
		one = e.Recipient
	}
	return keyOf(e.Channel, one)
}

// chatKey is what makes a chat one and the same. Telegram compares names without regard to case.
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

// FormerKey is the key under which former versions stored the same address in another spelling: an APNs token in capitals,
// or the name of a Telegram chat as it was written. Not ok: there is no other.
func FormerKey(e *Endpoint) (key [16]byte, ok bool) {
	if e.Channel != push.APNs && e.Channel != push.Telegram {
		return key, false
	}
	var a struct {
		Token  string          `json:"token"`
		ChatID json.RawMessage `json:"chat_id"`
		Thread int64           `json:"message_thread_id"`
	}
	_ = json.Unmarshal(e.Address, &a) // in its normal form: it is JSON
	if e.Channel == push.Telegram {
		written := formerChatKey(string(a.ChatID), a.Thread)
		return keyOf(e.Channel, written), written != chatKey(string(a.ChatID), a.Thread)
	}
	capitals := strings.ToUpper(a.Token)
	return keyOf(e.Channel, capitals), capitals != strings.ToLower(a.Token)
}

// SameHolder reports whether two addresses of one channel, equal by AddressKey, also share their secrets: whoever
// shows the second proves to be who registered the first. Where an address has no secret, knowing it is no proof.
func SameHolder(ch push.Channel, a, b json.RawMessage) bool {
	switch ch {
	case push.APNs:
		return strings.EqualFold(string(a), string(b))
	case push.WebPush, push.FCM:
		return bytes.Equal(a, b)
	}
	return false
}

// only refuses fields of an address that its channel does not have.
func only(fields map[string]json.RawMessage, known ...string) error {
	for name := range fields {
		if !slices.Contains(known, name) {
			return notification.BadField("address."+notification.Clip(name), "is not a known field")
		}
	}
	return nil
}

func webPushAddress(fields map[string]json.RawMessage) (a WebPushAddress, err error) {
	// expirationTime is in every browser's subscription and of no use: push services say 410 when it is over.
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

// keyBytes reads base64 of either alphabet, padded or not: browsers and exports differ.
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

// tokenAddress reads {"token"} and has normal check it and write it in its one form.
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

// fcmToken checks a registration token: characters outside its alphabet are impossible.
func fcmToken(token string) (string, error) {
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool {
		return r > 0x7f || !nameByte(byte(r), false) && !strings.ContainsRune(":-_.~%+/=", r)
	}) {
		return "", notification.BadField("address.token", "must be an FCM registration token: 1 to %d letters, digits and - _ : . ~ %% + / =", maxToken)
	}
	return token, nil
}

// apnsToken writes a device token as small hexadecimal digits. Libraries write capitals, too, and old apps describe the
// bytes like <0a1b2c3d 4e5f6071>.
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

// CheckPublic refuses an address whose URL is not https or leads to a non-public address, as far as that shows without
// DNS: the sender's client checks again when it dials.
func CheckPublic(e *Endpoint) error {
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
		if err := urlguard.CheckURL(raw, false); err != nil {
			return notification.BadField(field, "%s", err)
		}
	}
	return nil
}

// checkURL applies the rules for every URL. http is for tests and closed networks: see CheckPublic.
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
