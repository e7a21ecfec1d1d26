package campaign

import (
	"context"
	"encoding/binary"
	"net/url"
	"strings"

	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

// A tracking token identifies a delivery: campaign and row as varints. A token for a link also signs the link's destination, so that the
// redirect cannot lead elsewhere.

// ErrBadToken means that this server did not make the tracking token, or made it for another app or link.
var ErrBadToken = sealed.ErrBad

// trackToken returns a token; link is the link to sign, or empty.
func trackToken(key sealed.Key, num, row int64, link string) string {
	says := binary.AppendUvarint(nil, uint64(num)) // positive
	says = binary.AppendUvarint(says, uint64(row)) // positive
	return key.Seal(sealed.Track, says, link)
}

// open verifies a token that a receiver has returned.
func (s *Service) open(ctx context.Context, token, link string) (num, row int64, err error) {
	_, says, err := s.tokens.Open(ctx, token, sealed.Track, link)
	if err != nil {
		return 0, 0, err
	}
	n, read := binary.Uvarint(says)
	if read <= 0 {
		return 0, 0, ErrBadToken
	}
	r, more := binary.Uvarint(says[read:])
	if more <= 0 || n>>63 != 0 || r>>63 != 0 {
		return 0, 0, ErrBadToken
	}
	return int64(n), int64(r), nil
}

// React records a receiver's reaction to a message.
func (s *Service) React(ctx context.Context, token string, what Reaction) error {
	num, row, err := s.open(ctx, token, "")
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

// Follow verifies a link's token, so that the link may be followed. If a person follows it, Follow counts a click.
func (s *Service) Follow(ctx context.Context, token, link string, person bool) error {
	num, row, err := s.open(ctx, token, link)
	if err != nil || !person {
		return err
	}
	if err := s.react(ctx, num, row, Clicked); err != nil {
		s.log.WarnContext(ctx, "click is not counted", "error", err) // the error is only logged, because the person who clicked must not notice it
	}
	return nil
}

// redirect returns the link that counts a click and redirects to the given link.
func (s *Service) redirect(key sealed.Key, num, row int64, link string) string {
	if s.cfg.PublicURL == "" || !strings.HasPrefix(link, "https://") && !strings.HasPrefix(link, "http://") {
		return link
	}
	token := trackToken(key, num, row, link)
	return strings.TrimSuffix(s.cfg.PublicURL, "/") + "/v1/click/" + url.PathEscape(token) + "?to=" + url.QueryEscape(link)
}

// redirectAll replaces the links of a chat message by redirects. The content must have been rendered for this delivery alone.
func (s *Service) redirectAll(key sealed.Key, num, row int64, c *push.Content) {
	c.URL = s.redirect(key, num, row, c.URL)
	for _, buttons := range c.Telegram.Buttons {
		for i := range buttons {
			buttons[i].URL = s.redirect(key, num, row, buttons[i].URL)
		}
	}
}
