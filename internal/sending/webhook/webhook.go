// Package webhook posts signed messages to URLs (Standard Webhooks): notifications to endpoints, and events to hooks.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// Poster posts signed messages. It stores no secrets; the caller passes them with each message.
type Poster struct {
	Client  *http.Client
	Targets urlguard.Targets // to which URLs may lead
	Now     func() time.Time
}

// NewPoster makes a poster. The client should be one for the same targets.
func NewPoster(client *http.Client, targets urlguard.Targets) *Poster {
	return &Poster{Client: client, Targets: targets, Now: time.Now}
}

const maxURL = 2048

// CheckURL checks a receiver's URL and returns its origin, or an error that says what is wrong.
func CheckURL(raw string, targets urlguard.Targets) (origin string, err error) {
	if len(raw) > maxURL {
		return "", fmt.Errorf("has more than %d bytes", maxURL)
	}
	u, err := targets.ParseURL(raw)
	if err != nil {
		return "", err
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), nil
}

// Post posts one message. id is the same on every attempt; receivers deduplicate by it.
func (p *Poster) Post(ctx context.Context, secrets Secrets, to, id string, body []byte) error {
	origin, err := CheckURL(to, p.Targets)
	if err != nil {
		return &push.PermanentError{Reason: "url " + err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return &push.PermanentError{Reason: "url makes no valid request"}
	}
	now := p.Now()
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "godwit")
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	h.Set("Webhook-Signature", secrets.Sign(id, now, body))
	a, err := provider.Do(p.Client, req, "webhook at "+origin, origin)
	if err != nil {
		return err
	}
	return judge(&a, origin, now)
}

// judge returns the error that an answer means. A receiver may be any program: its text is not repeated, and its refusal of our signature
// is no evidence about other hosts.
func judge(a *provider.Answer, origin string, now time.Time) error {
	if a.Status == http.StatusConflict {
		return &push.RetryError{After: provider.RetryAfter(a.Header, now), Reason: fmt.Sprintf("webhook at %s answered %d", origin, a.Status)}
	}
	table := provider.Table{Name: "webhook at " + origin, Scope: origin, Lenient: true, Ends: true, Quiet: true}
	return table.Judge(a, now)
}

// Sender sends notifications to endpoints that are URLs, and to the app's named targets.
type Sender struct {
	poster  *Poster
	secrets Secrets
	targets map[string]string // name → URL
}

var (
	_ push.Sender   = (*Sender)(nil)
	_ push.Recaller = (*Sender)(nil)
	_ push.Pacer    = (*Sender)(nil)
)

// New makes a sender that signs with these secrets; targets maps names to URLs.
func New(p *Poster, secrets Secrets, targets map[string]string) (*Sender, error) {
	if len(secrets) == 0 {
		return nil, errors.New("webhook: there is no secret")
	}
	return &Sender{poster: p, secrets: secrets, targets: targets}, nil
}

// Target reports whether a target has this name.
func (s *Sender) Target(name string) bool { return s.targets[name] != "" }

// Close closes unused connections. Messages can still be sent.
func (s *Sender) Close() error {
	s.poster.Client.CloseIdleConnections()
	return nil
}

// Types of messages.
const (
	typeNotification = "notification"
	typeRecall       = "notification.recall"
)

// envelope is a message in the form that the standard recommends.
type envelope struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      data      `json:"data"`
}

type data struct {
	ID        string          `json:"id"`
	GodwitID  string          `json:"godwit_id"`
	App       string          `json:"app"`
	Recipient string          `json:"recipient,omitempty"`
	Endpoint  string          `json:"endpoint,omitempty"`
	To        string          `json:"to,omitempty"` // the target
	Title     string          `json:"title,omitempty"`
	Body      string          `json:"body,omitempty"`
	Icon      string          `json:"icon,omitempty"`
	Image     string          `json:"image,omitempty"`
	URL       string          `json:"url,omitempty"`
	Category  string          `json:"category,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Urgency   push.Urgency    `json:"urgency,omitempty"`
	Collapse  string          `json:"collapse_key,omitempty"`
	ExpiresAt *time.Time      `json:"expires_at,omitempty"`
	Track     string          `json:"track,omitempty"`
	Ack       string          `json:"godwit_ack,omitempty"`
	Settle    string          `json:"godwit_settle,omitempty"`
}

// Send makes one attempt.
func (s *Sender) Send(ctx context.Context, r push.Request) (push.Receipt, error) {
	to, target, err := s.parseAddress(r.Address)
	if err != nil {
		return push.Receipt{}, &push.PermanentError{Reason: err.Error()}
	}
	now := s.poster.Now().UTC().Truncate(time.Millisecond)
	if !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(now) && !r.Recall {
		return push.Receipt{}, &push.PermanentError{Reason: "expired before it was sent"}
	}
	id := r.ID
	e := envelope{Type: typeNotification, Timestamp: now, Data: data{
		ID: r.ID, GodwitID: r.GodwitID, App: r.App, Recipient: r.Recipient, Endpoint: r.Endpoint, To: target,
	}}
	if e.Data.GodwitID == "" {
		e.Data.GodwitID = r.ID
	}
	if r.Recall {
		e.Type, id = typeRecall, r.ID+".recall" // another message, so another id
	} else {
		fill(&e.Data, &r)
	}
	body, err := json.Marshal(&e)
	if err != nil {
		return push.Receipt{}, &push.PermanentError{Reason: "the message cannot be encoded"}
	}
	return push.Receipt{}, s.poster.Post(ctx, s.secrets, to, id, body)
}

func fill(d *data, r *push.Request) {
	c := &r.Content
	d.Title, d.Body, d.Icon, d.Image, d.URL, d.Category, d.Data = c.Title, c.Body, c.Icon, c.Image, c.URL, c.Category, c.Data
	d.Urgency, d.Collapse, d.Track, d.Ack, d.Settle = r.Urgency, r.Collapse, r.Track, r.AckToken, r.Settle
	if !r.ExpiresAt.IsZero() {
		at := r.ExpiresAt.UTC().Truncate(time.Millisecond)
		d.ExpiresAt = &at
	}
}

// Recall informs the receivers that a notification is withdrawn; how they handle that is up to them.
func (s *Sender) Recall(ctx context.Context, sent []push.Sent) []error {
	return provider.Each(sent, func(m *push.Sent) error {
		r := m.Request
		r.Recall = true
		_, err := s.Send(ctx, r)
		return err
	})
}

// Pace returns one scope for each receiver's origin.
func (s *Sender) Pace(address json.RawMessage) push.Pace {
	to, _, err := s.parseAddress(address)
	if err != nil {
		return push.Pace{}
	}
	origin, err := CheckURL(to, s.poster.Targets)
	if err != nil {
		return push.Pace{}
	}
	return push.Pace{Scope: origin}
}

// parseAddress returns an address's URL, and the target's name if it is a target's address. No endpoint has such an address.
func (s *Sender) parseAddress(address json.RawMessage) (url, target string, err error) {
	var a struct {
		URL    string `json:"url"`
		Target string `json:"target"`
	}
	err = json.Unmarshal(address, &a)
	switch {
	case err == nil && a.Target != "" && s.targets[a.Target] == "":
		return "", "", fmt.Errorf("channel webhook has no target %.128s any more", a.Target)
	case err == nil && a.Target != "":
		return s.targets[a.Target], a.Target, nil
	case err != nil || a.URL == "":
		return "", "", errors.New(`address is not like {"url":"https://example.org/hook"}`)
	}
	return a.URL, "", nil
}
