package pushserver

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Message is a message that an endpoint received.
type Message struct {
	Topic, Urgency, TTL, Authorization string
	URI                                string // path and query
	Proto                              int    // 2: HTTP/2
	Body                               []byte
	keys                               *keys
}

// Payload decrypts the body as the browser would.
func (m *Message) Payload() ([]byte, error) { return Decrypt(m.Body, m.keys.private, m.keys.auth) }

// Decrypt is the receiver's side of RFC 8291. It shares no code with the sender.
func Decrypt(body []byte, private *ecdh.PrivateKey, auth []byte) ([]byte, error) {
	if len(body) < 86+17 || body[20] != 65 {
		return nil, errors.New("body has no header of RFC 8188 with a key of 65 bytes")
	}
	salt, size, sender := body[:16], binary.BigEndian.Uint32(body[16:20]), body[21:86]
	if uint64(len(body)-86) > uint64(size) {
		return nil, fmt.Errorf("more than one record of %d bytes", size)
	}
	public, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return nil, err
	}
	shared, err := private.ECDH(public)
	if err != nil {
		return nil, err
	}
	derive := func(secret, salt []byte, info string, n int) []byte {
		b, _ := hkdf.Key(sha256.New, secret, salt, info, n) // fails only for lengths that do not occur here
		return b
	}
	ikm := derive(shared, auth, "WebPush: info\x00"+string(private.PublicKey().Bytes())+string(sender), 32)
	block, err := aes.NewCipher(derive(ikm, salt, "Content-Encoding: aes128gcm\x00", 16))
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	record, err := gcm.Open(nil, derive(ikm, salt, "Content-Encoding: nonce\x00", 12), body[86:], nil)
	if err != nil {
		return nil, err
	}
	end := len(record) - 1
	for end >= 0 && record[end] == 0 {
		end--
	}
	if end < 0 || record[end] != 2 {
		return nil, errors.New("no delimiter of the last record")
	}
	return record[:end], nil
}

var (
	topicForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
	vapidForm = regexp.MustCompile(`^vapid t=([^,\s]+), ?k=([^,\s]+)$`)
)

// head holds the method and the headers that are checked.
type head struct{ method, ttl, topic, urgency, encoding, authorization string }

func headOf(r *http.Request) head {
	get := r.Header.Get
	return head{r.Method, get("TTL"), get("Topic"), get("Urgency"), get("Content-Encoding"), get("Authorization")}
}

// check returns 0, or the status and reason with which a push service would refuse the message.
func (s *Server) check(h *head, size int) (status int, problem string) {
	ttl, err := strconv.Atoi(h.ttl)
	switch {
	case h.method != http.MethodPost:
		return http.StatusMethodNotAllowed, "POST only"
	case err != nil || ttl < 0:
		return http.StatusBadRequest, "TTL is missing or not a number"
	case h.encoding != "aes128gcm":
		return http.StatusBadRequest, "Content-Encoding is not aes128gcm"
	case h.topic != "" && !topicForm.MatchString(h.topic):
		return http.StatusBadRequest, "Topic is not 1 to 32 characters of base64url"
	case h.urgency != "" && h.urgency != "very-low" && h.urgency != "low" && h.urgency != "normal" && h.urgency != "high":
		return http.StatusBadRequest, "Urgency is none of RFC 8030"
	case size > 4096:
		return http.StatusRequestEntityTooLarge, "more than 4096 bytes"
	}
	if err := s.authenticate(h.authorization); err != nil {
		return http.StatusForbidden, err.Error()
	}
	return 0, ""
}

func (s *Server) authenticate(header string) error {
	if _, known := s.verified.Load(header); known {
		return nil
	}
	m := vapidForm.FindStringSubmatch(header)
	if m == nil {
		return errors.New("Authorization is not vapid t=..., k=...") //nolint:staticcheck // begins with a header's name
	}
	if s.opts.Public != "" && m[2] != s.opts.Public {
		return errors.New("another key than the subscription's")
	}
	claims, err := VerifyToken(m[1], m[2])
	if err != nil {
		return err
	}
	if claims.Audience != s.URL {
		return fmt.Errorf("aud is %s, not %s", claims.Audience, s.URL)
	}
	if left := time.Until(time.Unix(claims.Expires, 0)); left <= 0 || left > 24*time.Hour {
		return fmt.Errorf("exp is %s ahead, not within 24 h", left)
	}
	s.verified.Store(header, true)
	return nil
}

// Tokens counts the different Authorization headers accepted so far.
func (s *Server) Tokens() (n int) {
	s.verified.Range(func(any, any) bool { n++; return true })
	return n
}

// Claims are the claims of a VAPID token.
type Claims struct {
	Audience string `json:"aud"`
	Expires  int64  `json:"exp"`
	Subject  string `json:"sub"`
}

// VerifyToken verifies a VAPID token with the public key sent along with it (RFC 8292).
func VerifyToken(token, public string) (c Claims, err error) {
	dot := strings.LastIndexByte(token, '.')
	if dot < 0 || strings.Count(token, ".") != 2 {
		return c, errors.New("token is not a JWS")
	}
	raw := base64.RawURLEncoding
	sig, err := raw.DecodeString(token[dot+1:])
	if err != nil || len(sig) != 64 {
		return c, errors.New("signature is not 64 bytes of base64url")
	}
	point, err := raw.DecodeString(public)
	if err != nil {
		return c, errors.New("key is not base64url")
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return c, err
	}
	sum := sha256.Sum256([]byte(token[:dot]))
	if !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return c, errors.New("signature does not verify")
	}
	head, claims, _ := strings.Cut(token[:dot], ".")
	var h struct{ Typ, Alg string }
	if b, err := raw.DecodeString(head); err != nil || json.Unmarshal(b, &h) != nil || h.Alg != "ES256" {
		return c, errors.New("alg is not ES256")
	}
	b, err := raw.DecodeString(claims)
	if err != nil {
		return c, errors.New("claims are not base64url")
	}
	return c, json.Unmarshal(b, &c)
}

// Keys returns the private key and the auth secret of the message's subscription, as the browser holds them.
func (m *Message) Keys() (private, auth []byte) { return m.keys.private.Bytes(), m.keys.auth }
