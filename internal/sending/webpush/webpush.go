// Package webpush sends to browsers: by RFC 8030, with payloads encrypted by RFC 8291 and the server identified by RFC 8292 (VAPID).
package webpush

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	netmail "net/mail"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http2/hpack"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/h2post"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// Config holds a sender's settings and connections.
type Config struct {
	Key     *Key
	Subject string // mailto: or https: contact that push services can complain to
	Server  string // public URL of this server, for reports of service workers; empty: they find it themselves

	Defaults Defaults
	Targets  urlguard.Targets // to which endpoints may lead. Browsers name those, so it is public addresses alone, but in tests
	Own      *Own             // to whose endpoints messages go without the network; nil: none
	Client   *http.Client     // nil: one of its own
	Now      func() time.Time
}

// Sender sends to browsers.
type Sender struct {
	cfg    Config
	signer *signer
	posts  *h2post.Client // nil: everything goes through cfg.Client
}

var (
	_ push.Sender   = (*Sender)(nil)
	_ push.Recaller = (*Sender)(nil)
	_ push.Pacer    = (*Sender)(nil)
	_ push.Checker  = (*Sender)(nil)
)

// New makes a sender.
func New(cfg Config) (*Sender, error) {
	if cfg.Key == nil {
		return nil, errors.New("web push: there is no VAPID key")
	}
	if err := usableSubject(cfg.Subject); err != nil {
		return nil, fmt.Errorf("web push: subject %w", err)
	}
	if cfg.Client == nil {
		cfg.Client = provider.Client(cfg.Targets)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Sender{cfg: cfg, signer: newSigner(cfg.Key, cfg.Subject), posts: provider.Posts(cfg.Client)}, nil
}

// Close closes each of the sender's own connections as soon as it has no message under way, and waits for that. Messages can still be sent.
func (s *Sender) Close() error {
	return provider.Close(s.cfg.Client, s.posts)
}

// CheckSubject returns an error if a VAPID subject in settings is unusable. RFC 8292 allows an empty one, but Apple refuses it, like a
// contact that cannot be reached from outside.
func CheckSubject(s string) error {
	if err := usableSubject(s); err != nil || s == "" {
		return err
	}
	var host string
	if address, mail := strings.CutPrefix(s, "mailto:"); mail {
		address, _, _ = strings.Cut(address, "?")
		a, err := netmail.ParseAddress(address)
		if err != nil || a.Address != address {
			return errors.New("is not mailto: and one e-mail address")
		}
		host = address[strings.LastIndexByte(address, '@')+1:]
	} else {
		u, err := url.Parse(s)
		if err != nil || u.User != nil {
			return errors.New("must be like mailto:you@example.org or https://example.org/contact")
		}
		host = u.Hostname()
	}
	if !public(host) {
		return fmt.Errorf("names %.100q, which is no public domain: push services refuse such a contact, Apple's with BadJwtToken", host)
	}
	return nil
}

// notPublic lists the last labels of names that mean nothing outside a network (RFC 2606, 6761, 6762, 8375, and labels in common use).
var notPublic = map[string]bool{
	"localhost": true, "local": true, "localdomain": true, "test": true, "invalid": true, "internal": true, "lan": true, "home": true, "corp": true,
	"intranet": true, "private": true, "arpa": true, "onion": true,
}

// public reports whether a host name may have a meaning everywhere: it has at least two labels, and the last one has the form of a
// top-level domain.
func public(host string) bool {
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(host, ".")), ".")
	for _, l := range labels {
		if !isLabel(l) {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && len(last) > 1 && !notPublic[last] && strings.Trim(last, "0123456789") == last
}

// isLabel reports whether a text can be a label of a host's name, in lower case.
func isLabel(l string) bool {
	return l != "" && len(l) <= 63 && l[0] != '-' && l[len(l)-1] != '-' && !strings.ContainsFunc(l, func(r rune) bool {
		return r < utf8.RuneSelf && r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

// Advice returns what a person should change in this sender's settings; empty: nothing.
func (s *Sender) Advice() string {
	if s.cfg.Own != nil {
		if why := s.cfg.Own.unusable(); why != "" {
			return FieldOwn + " has no effect: " + why
		}
	}
	if err := CheckSubject(s.cfg.Subject); err != nil {
		return "the VAPID subject " + err.Error() + ": set another, as in godwit channel set webpush --set subject=mailto:you@example.org"
	}
	return ""
}

// usableSubject returns an error if a subject cannot be used at all. Former versions accepted more subjects than CheckSubject does.
func usableSubject(s string) error {
	address, mail := strings.CutPrefix(s, "mailto:")
	switch {
	case s == "":
		return nil
	case len(s) > 256:
		return errors.New("has more than 256 bytes")
	case mail && strings.Contains(address, "@") && !strings.ContainsAny(address, " <>\r\n"):
		return nil
	case !mail && strings.HasPrefix(s, "https://") && len(s) > len("https://") && !strings.ContainsAny(s, " <>\r\n"):
		return nil
	}
	return errors.New("must be like mailto:you@example.org or https://example.org/contact")
}

// Send makes one attempt.
func (s *Sender) Send(ctx context.Context, r push.Request) (push.Receipt, error) {
	if s.cfg.Own.starting() { // which endpoints are its own is not known yet
		return push.Receipt{}, &push.RetryError{Reason: "the push service of this server has not started yet"}
	}
	to, err := s.parseAddress(r.Address)
	if err != nil {
		return push.Receipt{}, &push.PermanentError{Reason: "subscription: " + err.Error()}
	}
	m, err := s.message(&r, to)
	if err != nil {
		return push.Receipt{}, err
	}
	name := "push service " + to.origin
	answer, err := s.post(ctx, m, to, name)
	if err != nil {
		return push.Receipt{}, err
	}
	return push.Receipt{}, s.judge(&answer, name, to.origin)
}

// message is a message to a push service.
type message struct {
	body                               []byte
	authorization, ttl, topic, urgency string
}

func (s *Sender) message(r *push.Request, to *subscription) (m message, err error) {
	now := s.cfg.Now()
	var ok bool
	if m.ttl, ok = ttl(r.ExpiresAt, now); !ok {
		return m, &push.PermanentError{Reason: "expired before it was sent"}
	}
	m.topic, m.urgency = topic(tag(r)), urgency(r.Urgency)
	plain, err := encodePayload(r, s.cfg.Server, s.cfg.Defaults)
	if err != nil {
		return m, &push.PermanentError{Reason: err.Error()}
	}
	if m.body, err = encrypt(to, plain); err != nil {
		return m, &push.PermanentError{Reason: err.Error()}
	}
	if m.authorization, err = s.signer.authorization(to.origin, now); err != nil {
		return m, &push.ConfigError{Scope: to.origin, Reason: err.Error()}
	}
	return m, nil
}

// post hands a message to this server's own push service, or sends it over h2post. It uses net/http instead for servers without HTTP/2, for plain http, and for host names that must first
// be converted to ASCII.
func (s *Sender) post(ctx context.Context, m message, to *subscription, name string) (provider.Answer, error) {
	if to.own {
		return s.cfg.Own.post(ctx, m.header(), to.endpoint, m.body, name)
	}
	if s.posts != nil && to.endpoint.Scheme == "https" && ascii(to.endpoint.Host) {
		answer, unsuited, err := provider.Post(ctx, s.posts, m.http2(to.endpoint), name, to.origin)
		if !unsuited {
			return answer, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "", bytes.NewReader(m.body))
	if err != nil {
		return provider.Answer{}, &push.PermanentError{Reason: "the request cannot be made"}
	}
	req.URL, req.Host, req.Header = to.endpoint, to.endpoint.Host, m.header()
	return provider.Do(s.cfg.Client, req, name, to.origin)
}

func ascii(host string) bool {
	return strings.IndexFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

const (
	valEncoding = "aes128gcm"
	valType     = "application/octet-stream"
	valAgent    = "godwit"
)

func (m *message) header() http.Header {
	return http.Header{
		"Authorization": {m.authorization}, "Content-Encoding": {valEncoding}, "Content-Type": {valType}, "User-Agent": {valAgent},
		"Ttl": {m.ttl}, "Topic": {m.topic}, "Urgency": {m.urgency},
	}
}

func (m *message) http2(to *url.URL) *h2post.Request {
	return &h2post.Request{
		Address: provider.Address(to), Authority: to.Host, Path: to.RequestURI(), Body: m.body,
		Header: []hpack.HeaderField{
			{Name: "authorization", Value: m.authorization},
			{Name: "content-encoding", Value: valEncoding},
			{Name: "content-type", Value: valType},
			{Name: "user-agent", Value: valAgent},
			{Name: "ttl", Value: m.ttl},
			{Name: "urgency", Value: m.urgency},
			{Name: "topic", Value: m.topic, Sensitive: true}, // it differs each time: not worth a place in the header table
		},
	}
}

func urgency(u push.Urgency) string {
	switch u {
	case push.UrgencyLow, push.UrgencyHigh:
		return string(u)
	}
	return string(push.UrgencyNormal)
}

// judge returns the error that a push service's answer means. A subscription of another VAPID key is refused with 403 by Google, 400 by
// Apple and 401 by Mozilla; when our own key is wrong, every subscription is refused like that.
func (s *Sender) judge(a *provider.Answer, name, origin string) error {
	table := provider.Table{Name: name, Scope: origin, Ends: true, Denied: func(status int, reason string) error {
		if status == http.StatusNotFound {
			return &push.ObjectionError{Scope: origin, Reason: reason, Ended: true, Shared: push.Host}
		}
		return &push.ObjectionError{Scope: origin, Reason: reason}
	}}
	return table.Judge(a, s.cfg.Now())
}

// Recall sends a message with the same topic in place of each one. It shows nothing and closes the one shown.
func (s *Sender) Recall(ctx context.Context, sent []push.Sent) []error {
	return provider.Each(sent, func(m *push.Sent) error {
		r := m.Request
		r.Recall = true
		// The recall has to reach the device that the message reached, maybe long after the message has expired.
		if least := s.cfg.Now().Add(defaultTTL); r.ExpiresAt.Before(least) {
			r.ExpiresAt = least
		}
		_, err := s.Send(ctx, r)
		return err
	})
}

// Delivers reports whether this server delivers to a push endpoint itself, so that its address may be private.
func (s *Sender) Delivers(endpoint string) bool {
	_, own := s.cfg.Own.find(endpoint)
	return own
}

// Pace returns one scope for each push service's origin. No push service documents a rate.
func (s *Sender) Pace(address json.RawMessage) push.Pace {
	endpoint, _, _, err := fields(address)
	if err != nil {
		return push.Pace{}
	}
	_, origin, _, err := s.parseEndpoint(endpoint)
	if err != nil {
		return push.Pace{}
	}
	return push.Pace{Scope: origin}
}

// Check makes a token and verifies that the key known to browsers signed it. Push services offer no call to test a key.
func (s *Sender) Check(context.Context) (string, error) {
	if _, err := s.signer.token("https://push.example", s.cfg.Now()); err != nil {
		return "", &push.ConfigError{Reason: err.Error()}
	}
	return "VAPID key " + s.cfg.Key.Public(), nil
}
