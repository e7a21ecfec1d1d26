// Package fcm sends to phones over Firebase Cloud Messaging, HTTP v1 (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages):
// one request per device token, authenticated as a service account.
package fcm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http2/hpack"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/h2post"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// DefaultURL is Google's own server.
const DefaultURL = "https://fcm.googleapis.com"

const (
	name = "FCM" // in errors
	// projectRate is the most messages a second of a project: 600,000 a minute
	// (firebase.google.com/docs/cloud-messaging/throttling-and-quotas). Not every project may use that rate at once, so sending begins
	// slowly.
	projectRate = 600_000.0 / 60
	// checkTopic is the topic of the message that tests credentials. The message is not delivered.
	checkTopic = "godwit"
)

// Config holds a sender's settings and connections.
type Config struct {
	Account *Account
	BaseURL string // empty: DefaultURL

	Targets urlguard.Targets // to which BaseURL and the account's token_uri may lead
	Client  *http.Client     // nil: one of its own
	Now     func() time.Time
}

// Sender sends for one project.
type Sender struct {
	cfg    Config
	to     *url.URL
	posts  *h2post.Client // nil: everything goes through cfg.Client
	tokens *tokens
	asked  asked
}

var (
	_ push.Sender   = (*Sender)(nil)
	_ push.Recaller = (*Sender)(nil)
	_ push.Pacer    = (*Sender)(nil)
	_ push.Checker  = (*Sender)(nil)
)

// New makes a sender.
func New(cfg Config) (*Sender, error) {
	if cfg.Account == nil {
		return nil, errors.New("FCM: there is no service account")
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultURL
	}
	base, err := cfg.Targets.ParseBase(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("FCM: base_url %w", err)
	}
	if cfg.Client == nil {
		cfg.Client = provider.Client(cfg.Targets)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Sender{
		cfg: cfg, to: base.JoinPath("v1/projects", cfg.Account.Project, "messages:send"), posts: provider.Posts(cfg.Client),
		tokens: &tokens{account: cfg.Account, client: cfg.Client, now: cfg.Now},
	}, nil
}

// Close closes each of its own connections as soon as no request is under way on it, and waits for that. Messages can still be sent.
func (s *Sender) Close() error {
	s.tokens.fetches.Wait()
	return provider.Close(s.cfg.Client, s.posts)
}

// Send makes one attempt. If the answer may mean either a malformed token or an invalid message, it checks the token with FCM.
func (s *Sender) Send(ctx context.Context, r push.Request) (push.Receipt, error) {
	device, err := parseAddress(r.Address)
	if err != nil {
		return push.Receipt{}, &push.PermanentError{Reason: "address: " + err.Error()}
	}
	body, err := encode(&r, device, s.cfg.Now())
	if err != nil {
		return push.Receipt{}, &push.PermanentError{Reason: err.Error()}
	}
	external, why, err := s.post(ctx, body, device)
	if err != nil && why.ambiguous() {
		err = s.which(ctx, device, err)
	}
	return push.Receipt{ExternalID: external}, err
}

// which checks whether a message was refused because of its token, by a dry run of an empty message to it. The refusal stands if the token
// is valid, or if it was checked within a day.
func (s *Sender) which(ctx context.Context, device string, refusal error) error {
	if !s.asked.may(device, s.cfg.Now()) {
		return refusal
	}
	body, err := marshal(&envelope{ValidateOnly: true, Message: message{Token: device}})
	if err != nil {
		return refusal
	}
	_, why, err := s.post(ctx, body, device)
	var gone *push.GoneError
	var permanent *push.PermanentError
	var unknown *push.UnknownError
	switch {
	case err == nil:
		return refusal
	case errors.As(err, &gone):
		return gone
	case errors.As(err, &permanent):
		if why.ambiguous() {
			return &push.GoneError{Reason: "FCM refuses the token: " + permanent.Reason}
		}
		return refusal
	}
	s.asked.forget(device)
	if errors.As(err, &unknown) { // unknown is the outcome of the check; the message itself was refused
		return &push.RetryError{Reason: unknown.Reason}
	}
	return err
}

// post posts a body, with another access token if the first is refused. It returns the accepted message's name, or why the message was
// refused. A revoked access token ends before its time.
func (s *Sender) post(ctx context.Context, body []byte, device string) (external string, why failure, err error) {
	refused := ""
	for {
		access, err := s.tokens.get(ctx, refused)
		if err != nil {
			return "", why, err
		}
		a, err := s.request(ctx, body, access)
		if err != nil {
			return "", why, err
		}
		if a.Status >= 200 && a.Status < 300 {
			external, err = s.accepted(&a)
			return external, why, err
		}
		why = parseFailure(&a)
		if a.Status != http.StatusUnauthorized || why.Code == "THIRD_PARTY_AUTH_ERROR" || refused != "" {
			return "", why, s.judge(&a, &why, device)
		}
		refused = access
	}
}

// accepted returns the name of an accepted message. A complete answer without a name does not come from FCM.
func (s *Sender) accepted(a *provider.Answer) (string, error) {
	var m struct {
		Name string `json:"name"`
	}
	readable := json.Unmarshal(a.Body, &m) == nil && m.Name != ""
	switch {
	case a.Cut != nil:
		return "", &push.UnknownError{Reason: fmt.Sprintf("FCM answered %d without saying what became of the message", a.Status)}
	case !readable:
		return "", later(&push.RetryError{Scope: s.cfg.Account.Project, Reason: fmt.Sprintf("FCM answered %d without a message's name: something else may answer in its place", a.Status)})
	}
	return provider.Clip(m.Name), nil
}

// request sends a body over HTTP/2; to servers without HTTP/2, or with plain http where that is allowed, it uses net/http.
func (s *Sender) request(ctx context.Context, body []byte, access string) (provider.Answer, error) {
	project := s.cfg.Account.Project
	if s.posts != nil && s.to.Scheme == "https" {
		answer, unsuited, err := provider.Post(ctx, s.posts, s.http2(body, access), name, project)
		if !unsuited {
			return answer, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.to.String(), bytes.NewReader(body))
	if err != nil {
		return provider.Answer{}, &push.ConfigError{Scope: project, Reason: "FCM: base_url makes no valid URL"}
	}
	req.Header = http.Header{"Authorization": {"Bearer " + access}, "Content-Type": {"application/json"}, "User-Agent": {"godwit"}}
	return provider.Do(s.cfg.Client, req, name, project)
}

func (s *Sender) http2(body []byte, access string) *h2post.Request {
	return &h2post.Request{
		Address: provider.Address(s.to), Authority: s.to.Host, Path: s.to.RequestURI(), Body: body,
		Header: []hpack.HeaderField{
			{Name: "authorization", Value: "Bearer " + access},
			{Name: "content-type", Value: "application/json"},
			{Name: "user-agent", Value: "godwit"},
		},
	}
}

// Recall sends each device a data message, with which the app removes the notification that it shows, and does not show it if it arrives
// later.
func (s *Sender) Recall(ctx context.Context, sent []push.Sent) []error {
	return provider.Each(sent, func(m *push.Sent) error {
		r := m.Request
		r.Recall = true
		// The recall has to reach the device that received the message, maybe long after the message itself would have expired.
		if least := s.cfg.Now().Add(defaultTTL); r.ExpiresAt.Before(least) {
			r.ExpiresAt = least
		}
		_, err := s.Send(ctx, r)
		return err
	})
}

// Pace is the pace of the project.
func (s *Sender) Pace(json.RawMessage) push.Pace {
	return push.Pace{Scope: s.cfg.Account.Project, Rate: projectRate}
}

// Check lets FCM validate a message that is not delivered.
func (s *Sender) Check(ctx context.Context) (string, error) {
	body, err := marshal(&envelope{ValidateOnly: true, Message: message{Topic: checkTopic}})
	if err != nil {
		return "", err
	}
	if _, _, err := s.post(ctx, body, ""); err != nil {
		return "", provider.Checked(err)
	}
	return "project " + s.cfg.Account.Project + ", as " + s.cfg.Account.Email, nil
}
