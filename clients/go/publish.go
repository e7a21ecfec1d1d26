package godwit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"
)

// Limits of a publish.
const (
	MaxRecipients = 1000      // of one publish
	MaxPublish    = 256 << 10 // maximum bytes of one encoded publish
	maxBatchLines = 10_000    // maximum lines of one request; PublishBatch sends as many requests as it needs
	maxBatchBytes = 31 << 20  // the server takes 32 MB
)

// Publication is a notification to be published. Only To is required.
type Publication struct {
	To string // the recipient: 1 to 128 bytes of A-Za-z0-9._:@+-
	// ID identifies the notification; publishing it again to the same recipient while it is pending, or within 24 h after it settled,
	// changes nothing. Empty: a ULID is created.
	ID          string
	Title       string
	Body        string
	Category    string
	Data        []byte        // JSON, text or bytes
	ContentType string        // type of Data; empty: JSON if it is valid JSON, else text if it is UTF-8, else bytes
	TTL         time.Duration // 0: 24 h; at most 30 days; counts from SendAt if that is set
	ExpiresAt   time.Time     // instead of TTL
	SendAt      time.Time     // delivery time, at most 30 days ahead
	CollapseKey string        // an unsettled notification of the same key and recipient is replaced
	DigestKey   string        // with which others it gathers, if its category gathers; empty: the category's settings say
	Priority    string        // high, normal (default) or low
	Ack         string        // any (default), all or none
	ReplyBy     time.Duration // requests an answer from the recipient within this time, at most 30 days; see Status.Reply
	// Template names one of the app's templates, whose content replaces Title, Body and Category. Variables must contain each of the
	// template's variables that has no fallback.
	Template  string
	Variables map[string]string
	Locale    string // BCP 47: the template's language for sessions, and for endpoints without a known language
	// Inbox says whether recipients' inboxes keep it after its delivery; nil: its category decides. Keep is for how long, 0: 30 days, at most
	// 365; Actions are choices that the kept notification offers, 5 at most.
	Inbox   *bool
	Keep    time.Duration
	Actions []Action
	// Escalate lists the steps that follow one another until the notification is acknowledged.
	Escalate []Step
	// FCM, APNs and LiveActivity are what phones alone get by these steps; nil: nothing.
	FCM          *FCM
	APNs         *APNs
	LiveActivity *LiveActivity
}

// Step is one step of an escalation.
type Step struct {
	Channel string        // live, which must be the first step's, or a push channel
	After   time.Duration // delay after the notification is due; not less than that of the step before
	Settle  string        // "shown": settled as soon as a device has shown it; empty: by a click or an acknowledgement
	Keep    bool          // the step's message stays visible although the notification was settled elsewhere
	To      string        // for webhooks: the name of one of the app's targets, which replaces the recipient's endpoints
}

// Receipt confirms that a notification is on the server's disk, or holds the error.
type Receipt struct {
	ID        string    `json:"id"`
	To        string    `json:"to"`
	Status    string    `json:"status"`
	Duplicate bool      `json:"duplicate"` // it was published before: nothing was sent again
	ExpiresAt time.Time `json:"expires_at"`
	Err       error     `json:"-"` // this copy was refused
}

// wirePublication is a publish in the API's JSON.
type wirePublication struct {
	To          any             `json:"to"`
	ID          string          `json:"id"`
	Title       string          `json:"title,omitempty"`
	Body        string          `json:"body,omitempty"`
	Category    string          `json:"category,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
	DataBase64  string          `json:"data_base64,omitempty"`
	ContentType string          `json:"content_type,omitempty"`
	TTL         string          `json:"ttl,omitempty"`
	ExpiresAt   *time.Time      `json:"expires_at,omitempty"`
	SendAt      *time.Time      `json:"send_at,omitempty"`
	CollapseKey string          `json:"collapse_key,omitempty"`
	DigestKey   string          `json:"digest_key,omitempty"`
	Priority    string          `json:"priority,omitempty"`
	Ack         string          `json:"ack,omitempty"`
	ReplyBy     string          `json:"reply_by,omitempty"`
	Escalate    []wireStep      `json:"escalate,omitempty"`

	Template  string            `json:"template,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
	Locale    string            `json:"locale,omitempty"`

	Inbox   *bool    `json:"inbox,omitempty"`
	Keep    string   `json:"keep,omitempty"`
	Actions []Action `json:"actions,omitempty"`

	FCM          *FCM          `json:"fcm,omitempty"`
	APNs         *APNs         `json:"apns,omitempty"`
	LiveActivity *LiveActivity `json:"live_activity,omitempty"`
}

type wireStep struct {
	Channel  string `json:"channel"`
	After    string `json:"after,omitempty"`
	Settle   string `json:"settle,omitempty"`
	Withdraw *bool  `json:"withdraw,omitempty"`
	To       string `json:"to,omitempty"`
}

func (p *Publication) wire(to any) (*wirePublication, error) {
	w := &wirePublication{
		To: to, ID: p.ID, Title: p.Title, Body: p.Body, Category: p.Category, ContentType: p.ContentType,
		CollapseKey: p.CollapseKey, DigestKey: p.DigestKey, Priority: p.Priority, Ack: p.Ack,
		Template: p.Template, Variables: p.Variables, Locale: p.Locale,
		Inbox: p.Inbox, Actions: p.Actions,
		FCM: p.FCM, APNs: p.APNs, LiveActivity: p.LiveActivity,
	}
	if w.ID == "" {
		w.ID = ulid.Make().String()
	}
	for _, s := range p.Escalate {
		step := wireStep{Channel: s.Channel, Settle: s.Settle, To: s.To}
		if s.After != 0 {
			step.After = s.After.String()
		}
		if s.Keep {
			step.Withdraw = new(bool)
		}
		w.Escalate = append(w.Escalate, step)
	}
	if p.TTL != 0 {
		w.TTL = p.TTL.String()
	}
	if p.ReplyBy != 0 {
		w.ReplyBy = p.ReplyBy.String()
	}
	if p.Keep != 0 {
		w.Keep = p.Keep.String()
	}
	if !p.ExpiresAt.IsZero() {
		w.ExpiresAt = &p.ExpiresAt
	}
	if !p.SendAt.IsZero() {
		w.SendAt = &p.SendAt
	}
	return w, w.setData(p.Data)
}

func (w *wirePublication) setData(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	asJSON := json.Valid(data)
	if w.ContentType == "" {
		switch {
		case asJSON:
		case utf8.Valid(data):
			w.ContentType = "text/plain; charset=utf-8"
		default:
			w.ContentType = "application/octet-stream"
		}
	}
	switch {
	case w.ContentType == "" || isJSON(w.ContentType):
		if !asJSON {
			return fmt.Errorf("data is not valid JSON although its content type is %s", w.ContentType)
		}
		w.Data = data
	case utf8.Valid(data):
		b, err := json.Marshal(string(data))
		w.Data = b
		return err
	default:
		w.DataBase64 = base64.StdEncoding.EncodeToString(data)
	}
	return nil
}

func isJSON(contentType string) bool {
	base, _, _ := strings.Cut(contentType, ";")
	base = strings.TrimSpace(base)
	return base == "application/json" || strings.HasSuffix(base, "+json")
}

// Publish stores one notification and returns once it is on the server's disk. After an error it may have been
// stored all the same: publish again with the same ID.
func (c *Client) Publish(ctx context.Context, p Publication) (Receipt, error) {
	if c.rpc != nil {
		return c.rpc.publishOne(ctx, c, &p)
	}
	w, err := p.wire(p.To)
	if err != nil {
		return Receipt{}, fmt.Errorf("publish to %s: %w", p.To, err)
	}
	var r Receipt
	if err := c.doJSON(ctx, request{method: http.MethodPost, path: "/v1/notifications"}, w, &r); err != nil {
		return Receipt{ID: w.ID, To: p.To, Err: err}, fmt.Errorf("publish %s to %s: %w", w.ID, p.To, err)
	}
	return r, nil
}

// RequestBody returns the body of the HTTP API's POST for a publication. If ID is empty, a new id is used.
func (p *Publication) RequestBody() ([]byte, error) {
	w, err := p.wire(p.To)
	if err != nil {
		return nil, err
	}
	return json.Marshal(w)
}

// PublishTo stores one notification for up to MaxRecipients recipients; p.To is ignored. It returns one receipt per recipient, in order;
// some may hold an error.
func (c *Client) PublishTo(ctx context.Context, p Publication, to ...string) ([]Receipt, error) {
	if c.rpc != nil {
		return c.rpc.publishTo(ctx, c, &p, to)
	}
	w, err := p.wire(to)
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	var answer struct {
		Results []result `json:"results"`
	}
	if err := c.doJSON(ctx, request{method: http.MethodPost, path: "/v1/notifications"}, w, &answer); err != nil {
		return nil, fmt.Errorf("publish %s to %d recipients: %w", w.ID, len(to), err)
	}
	receipts := make([]Receipt, len(answer.Results))
	for i := range answer.Results {
		receipts[i] = answer.Results[i].receipt()
	}
	return receipts, nil
}

// result is one of several answers: a receipt, or an error.
type result struct {
	Receipt
	Error *problem `json:"error"`
}

func (r *result) receipt() Receipt {
	if r.Error != nil {
		r.Err = r.Error.err()
	}
	return r.Receipt
}
