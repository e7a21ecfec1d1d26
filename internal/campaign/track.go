package campaign

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/url"
	"strings"
)

// A tracking token names a delivery and proves that this server made it: one byte of version, campaign and row as
// varints, 16 bytes of HMAC-SHA256 under the app's secret; base64url. With a link it also signs where the link leads,
// so that the redirect leads nowhere else.
const (
	tokenVersion = 1
	macBytes     = 16
	maxToken     = 64
)

// ErrBadToken is a tracking token that this server did not make, or not for this app or link.
var ErrBadToken = errors.New("the tracking token is not valid")

// sealToken makes a token; link is empty unless it is to sign one.
func sealToken(key []byte, num, row int64, link string) string {
	b := make([]byte, 0, maxToken)
	b = append(b, tokenVersion)
	b = binary.AppendUvarint(b, uint64(num)) //nolint:gosec // positive
	b = binary.AppendUvarint(b, uint64(row)) //nolint:gosec // positive
	return base64.RawURLEncoding.EncodeToString(append(b, tokenMAC(key, b, link)...))
}

func tokenMAC(key, payload []byte, link string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(payload)
	h.Write([]byte{0})
	h.Write([]byte(link))
	return h.Sum(nil)[:macBytes]
}

func openToken(key []byte, token, link string) (num, row int64, err error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(token) > maxToken || len(b) < 1+macBytes || b[0] != tokenVersion {
		return 0, 0, ErrBadToken
	}
	payload, mac := b[:len(b)-macBytes], b[len(b)-macBytes:]
	if subtle.ConstantTimeCompare(mac, tokenMAC(key, payload, link)) != 1 {
		return 0, 0, ErrBadToken
	}
	n, read := binary.Uvarint(payload[1:])
	if read <= 0 {
		return 0, 0, ErrBadToken
	}
	r, more := binary.Uvarint(payload[1+read:])
	if more <= 0 || n>>63 != 0 || r>>63 != 0 {
		return 0, 0, ErrBadToken
	}
	return int64(n), int64(r), nil //nolint:gosec // checked
}

// A token travels with its app before it, since each has its own secret: app~token. Names have no tilde.
const tokenSeparator = "~"

func (s *Service) trackKey(ctx context.Context, app string) ([]byte, error) {
	if key, ok := s.keys.Load(app); ok {
		return key.([]byte), nil
	}
	key, err := s.store.TrackKey(ctx, app)
	if err == nil {
		s.keys.Store(app, key)
	}
	return key, err
}

// open checks a token that travelled. Secrets are only made by sending, so that strangers cannot have any made.
func (s *Service) open(ctx context.Context, token, link string) (app string, num, row int64, err error) {
	app, sealed, ok := strings.Cut(token, tokenSeparator)
	if !ok || len(app) > 128 {
		return "", 0, 0, ErrBadToken
	}
	cached, ok := s.keys.Load(app)
	if !ok {
		if !s.cfg.KnownApp(app) {
			return "", 0, 0, ErrBadToken
		}
		key, err := s.trackKey(ctx, app)
		if err != nil {
			return "", 0, 0, err
		}
		cached = key
	}
	num, row, err = openToken(cached.([]byte), sealed, link)
	return app, num, row, err
}

// React notes what a receiver did with a message.
func (s *Service) React(ctx context.Context, token string, what Reaction) error {
	_, num, row, err := s.open(ctx, token, "")
	if err != nil {
		return err
	}
	return s.react(ctx, num, row, what)
}

func (s *Service) react(ctx context.Context, num, row int64, what Reaction) error {
	first, err := s.store.Track(ctx, num, row, what, s.cfg.Now())
	if first {
		s.metrics.react(what)
	}
	return err
}

// Follow counts a click on a link and returns nothing but whether the link may be followed.
func (s *Service) Follow(ctx context.Context, token, link string) error {
	_, num, row, err := s.open(ctx, token, link)
	if err != nil {
		return err
	}
	if err := s.react(ctx, num, row, Clicked); err != nil {
		s.log.WarnContext(ctx, "click is not counted", "error", err) // whoever clicked is not to suffer for it
	}
	return nil
}

// redirect makes the link that counts a click and leads to the given one.
func (s *Service) redirect(key []byte, app string, num, row int64, link string) string {
	if s.cfg.PublicURL == "" || !strings.HasPrefix(link, "https://") && !strings.HasPrefix(link, "http://") {
		return link
	}
	token := app + tokenSeparator + sealToken(key, num, row, link)
	return strings.TrimSuffix(s.cfg.PublicURL, "/") + "/v1/click/" + url.PathEscape(token) + "?to=" + url.QueryEscape(link)
}
