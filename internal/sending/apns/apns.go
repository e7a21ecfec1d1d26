// Package apns sends to Apple's devices
// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns), authenticated by tokens that it
// signs with a key. It also withdraws messages that devices still show.
package apns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/h2post"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// The environments: apps from Xcode have tokens of the sandbox, those from TestFlight and the App Store of production.
const (
	Production = "production"
	Sandbox    = "sandbox"
)

var servers = map[string]string{Production: "https://api.push.apple.com", Sandbox: "https://api.sandbox.push.apple.com"}

const (
	// conns is the most connections: each carries one message until its first token is accepted, then a thousand at once.
	conns = 4
	// maxToken is the most digits of a device token; today's have 64 to 160 digits, and may become longer.
	maxToken = 256
	// maxLife is the longest time for which APNs is asked to keep a message, and defaultLife the time for a message without an expiry.
	maxLife, defaultLife = 30 * 24 * time.Hour, 24 * time.Hour
)

// Config holds a sender's settings and connections.
type Config struct {
	Key         *Key
	KeyID       string
	TeamID      string
	Topic       string // the app's bundle id
	Environment string // empty: Production
	BaseURL     string // replaces Apple's server; empty: the server of the environment

	Targets urlguard.Targets // to which BaseURL may lead
	Client  *http.Client     // nil: one of its own
	Now     func() time.Time
}

// Sender sends to the devices of one app.
type Sender struct {
	cfg     Config
	posts   *h2post.Client
	address string // host:port to connect to
	host    string
	manager string // URL of the server that manages broadcast channels
	scope   string
	signer  *signer
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
		return nil, errors.New("apns: there is no key")
	}
	if cfg.Environment == "" {
		cfg.Environment = Production
	}
	manager := strings.TrimSuffix(cfg.BaseURL, "/")
	if cfg.BaseURL == "" {
		cfg.BaseURL, manager = servers[cfg.Environment], managers[cfg.Environment]
	}
	at, err := parseServer(cfg.BaseURL, cfg.Targets)
	if err != nil {
		return nil, fmt.Errorf("apns: base_url %w", err)
	}
	if cfg.Client == nil {
		cfg.Client = provider.Client(cfg.Targets)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Sender{
		cfg: cfg, posts: provider.PostsOver(cfg.Client, conns), address: provider.Address(at), host: at.Host, manager: manager, scope: "apns:" + cfg.Topic,
		signer: &signer{key: cfg.Key, keyID: cfg.KeyID, teamID: cfg.TeamID},
	}
	if s.posts == nil {
		return nil, errors.New("apns: the HTTP client is not one of ours")
	}
	return s, nil
}

// parseServer checks the URL of a server that replaces Apple's.
func parseServer(raw string, targets urlguard.Targets) (*url.URL, error) {
	u, err := targets.ParseBase(raw)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "https":
		return nil, errors.New("must begin with https://")
	case strings.Trim(u.Path, "/") != "":
		return nil, errors.New("must be a host alone, like https://host:port")
	}
	return u, nil
}

// Close closes each connection as soon as no request is under way on it, and waits for that. Messages can still be sent.
func (s *Sender) Close() error {
	return provider.Close(s.cfg.Client, s.posts)
}

// Send makes one attempt, and a second one if APNs found our token too old.
func (s *Sender) Send(ctx context.Context, r push.Request) (push.Receipt, error) {
	m, err := s.message(&r)
	if err != nil {
		return push.Receipt{}, err
	}
	a, err := s.post(ctx, m)
	if err == nil {
		err = s.judge(a, m)
	}
	if err != nil {
		return push.Receipt{}, err
	}
	return push.Receipt{ExternalID: m.id}, nil
}

// message is what APNs gets.
type message struct {
	path, id, kind, priority, expiration string

	topic    string // empty: a broadcast has none
	collapse string // empty: it replaces nothing
	channel  string // the broadcast channel; empty: the message is for one device
	scope    string // of pacing
	body     []byte
}

// message converts a request, or returns the reason why it can never be sent.
func (s *Sender) message(r *push.Request) (*message, error) {
	if isStart(r.Address) {
		m, err := s.startMessage(r)
		if err != nil {
			return nil, &push.PermanentError{Reason: err.Error()}
		}
		return m, nil
	}
	device, err := parseAddress(r.Address)
	if err != nil {
		return nil, &push.PermanentError{Reason: "address: " + err.Error()}
	}
	now := s.cfg.Now()
	until := r.ExpiresAt
	switch {
	case until.IsZero():
		until = now.Add(defaultLife)
	case !until.After(now):
		return nil, &push.PermanentError{Reason: "expired before it was sent"}
	case until.Sub(now) > maxLife:
		until = now.Add(maxLife)
	}
	m := &message{
		path: "/3/device/" + device, topic: s.cfg.Topic, scope: s.scope, id: messageID(r), kind: "alert", priority: priority(r.Urgency), collapse: collapseID(r),
		expiration: strconv.FormatInt(until.Unix(), 10),
	}
	if r.Recall || r.Content.APNs.Background {
		m.kind, m.priority = "background", priority(push.UrgencyNormal) // APNs refuses 10 for it
	}
	if r.BadgeOnly { // a number is for the user to see, so its kind is alert
		m.priority = priority(push.UrgencyNormal)
	}
	if m.body, err = encodePayload(r); err != nil {
		return nil, &push.PermanentError{Reason: err.Error()}
	}
	return m, nil
}

// isStart reports whether an address is that of a device on which messages start Live Activities.
func isStart(address json.RawMessage) bool {
	var a struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(address, &a) == nil && a.Type != ""
}

// priority is the APNs priority: wake the device at once, when that costs little energy, or not at all.
func priority(u push.Urgency) string {
	switch u {
	case push.UrgencyHigh:
		return "10"
	case push.UrgencyLow:
		return "1"
	}
	return "5"
}

const name = "APNs"

// post sends a message. If APNs finds our token too old, it sends the message once more with a new token.
func (s *Sender) post(ctx context.Context, m *message) (answer, error) {
	token, err := s.signer.token(s.cfg.Now())
	if err != nil {
		return answer{}, &push.ConfigError{Scope: s.scope, Reason: err.Error()}
	}
	a, err := s.try(ctx, m, token)
	if err != nil || a.reason != expiredToken {
		return a, err
	}
	renewed, err := s.signer.renew(token, s.cfg.Now())
	if err != nil {
		return answer{}, &push.ConfigError{Scope: s.scope, Reason: a.says(err.Error())}
	}
	return s.try(ctx, m, renewed)
}

// try makes one request. If APNs ends the connection with a reason and certainly did not process the message, the reason
// counts as the answer.
func (s *Sender) try(ctx context.Context, m *message, token string) (answer, error) {
	got, unsuited, err := provider.Post(ctx, s.posts, s.request(m, token), name, m.scope)
	if unsuited {
		return answer{}, &push.RetryError{Credential: true, Scope: m.scope, Reason: name + " does not speak HTTP/2 here: something stands between it and this server"}
	}
	if err == nil {
		return readAnswer(&got, s.cfg.Now()), nil
	}
	var retry *push.RetryError
	if a := readFarewell(got.Farewell); a.denied() && errors.As(err, &retry) {
		return a, nil
	}
	return answer{}, err
}

func (s *Sender) request(m *message, token string) *h2post.Request {
	h := []hpack.HeaderField{{Name: "authorization", Value: "bearer " + token}}
	if m.topic != "" {
		h = append(h, hpack.HeaderField{Name: "apns-topic", Value: m.topic})
	}
	h = append(h,
		hpack.HeaderField{Name: "apns-push-type", Value: m.kind},
		hpack.HeaderField{Name: "apns-priority", Value: m.priority},
		// These values differ in each request, so they do not go into the header table.
		hpack.HeaderField{Name: idHeader(m), Value: m.id, Sensitive: true},
		hpack.HeaderField{Name: "apns-expiration", Value: m.expiration, Sensitive: true},
	)
	for name, value := range map[string]string{"apns-collapse-id": m.collapse, headerChannel: m.channel} {
		if value != "" {
			h = append(h, hpack.HeaderField{Name: name, Value: value, Sensitive: true})
		}
	}
	return &h2post.Request{Address: s.address, Authority: s.host, Path: m.path, Body: m.body, Header: h}
}

// idHeader is the header for a message's id: broadcasts have another one.
func idHeader(m *message) string {
	if m.channel != "" {
		return "apns-request-id"
	}
	return "apns-id"
}

// Recall sends a background message for each notification, with which the app removes the notification. The system may delay the message,
// or not wake an app that the user has closed.
func (s *Sender) Recall(ctx context.Context, sent []push.Sent) []error {
	return provider.Each(sent, func(m *push.Sent) error {
		if isStart(m.Request.Address) {
			return &push.PermanentError{Reason: "a Live Activity that has started ends with the object that it follows"}
		}
		r := m.Request
		r.Recall = true
		_, err := s.Send(ctx, r)
		return err
	})
}

// Pace has one scope, and another for Live Activities: APNs publishes no rate, and reports when a device gets too many messages.
func (s *Sender) Pace(address json.RawMessage) push.Pace {
	if isStart(address) {
		return push.Pace{Scope: s.scope + activityTopic}
	}
	return push.Pace{Scope: s.scope}
}

// impossible is a device token that cannot exist: APNs rejects it only after it has checked the credentials.
var impossible = strings.Repeat("0", 64)

// Check sends to a device token that cannot exist, which tests only the credentials.
func (s *Sender) Check(ctx context.Context) (string, error) {
	r := push.Request{ID: "check", Address: json.RawMessage(`{"token":"` + impossible + `"}`)}
	r.Content.APNs.Background = true
	m, err := s.message(&r)
	if err != nil {
		return "", err
	}
	a, err := s.post(ctx, m)
	if err == nil {
		err = s.judge(a, m)
	}
	var no *push.ObjectionError
	if err != nil && (!errors.As(err, &no) || !no.Ended) {
		return "", provider.Checked(err)
	}
	return fmt.Sprintf("key %s of team %s for %s in %s", s.cfg.KeyID, s.cfg.TeamID, s.cfg.Topic, s.cfg.Environment), nil
}

// parseAddress reads {"token"}: hexadecimal digits.
func parseAddress(address json.RawMessage) (string, error) {
	var a struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(address, &a); err != nil || a.Token == "" {
		return "", errors.New(`is not like {"token":"…"}`)
	}
	if !validToken(a.Token) {
		return "", fmt.Errorf("token is not made of at most %d hexadecimal digits", maxToken)
	}
	return a.Token, nil
}
