// Package telegram sends messages of a bot (https://core.telegram.org/bots/api), corrects them and takes them back. It can also keep the
// bot's audience up to date by listening to /start and /stop.
package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// DefaultURL is Telegram's own Bot API server.
const DefaultURL = "https://api.telegram.org"

// Limits of the Bot API as documented (https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this). They change, so
// 429 answers take precedence.
const (
	botRate     = 30              // messages a second of a bot
	chatEvery   = time.Second     // between messages to one chat
	groupEvery  = 3 * time.Second // to one group: 20 a minute
	maxText     = 4096            // UTF-16 units of a text
	maxCaption  = 1024            // of a caption
	deleteWhile = 48 * time.Hour  // after sending
	deleteMost  = 100             // ids in one call

	maxAnswer = 1 << 20 // in bytes: fits pollMost updates, each with a text of 4,096 characters
)

// Config holds a sender's settings and connections.
type Config struct {
	Token   string // of the bot: 123456:ABC…
	BaseURL string // empty: DefaultURL
	Listens bool   // Listen is wanted

	Targets urlguard.Targets // to which BaseURL may lead besides this machine and private networks
	Client  *http.Client     // nil: one of its own
	Now     func() time.Time
}

// Sender sends as one bot.
type Sender struct {
	cfg   Config
	base  *url.URL // contains the token: never put into an error
	scope string

	username atomic.Pointer[string] // the bot's name; nil: not queried yet
}

var (
	_ push.Sender    = (*Sender)(nil)
	_ push.Recaller  = (*Sender)(nil)
	_ push.Corrector = (*Sender)(nil)
	_ push.Pacer     = (*Sender)(nil)
	_ push.Weigher   = (*Sender)(nil)
	_ push.Checker   = (*Sender)(nil)
)

var tokenForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,20}:[A-Za-z0-9_-]{10,100}$`) })

// New makes a sender.
func New(cfg Config) (*Sender, error) {
	if !tokenForm().MatchString(cfg.Token) {
		return nil, errors.New("telegram: the token is not like 123456:ABC-DEF")
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultURL
	}
	server, err := parseServer(cfg.BaseURL, cfg.Targets)
	if err != nil {
		return nil, fmt.Errorf("telegram: base_url %w", err)
	}
	if cfg.Client == nil {
		cfg.Client = provider.Client(cfg.reach())
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	bot, _, _ := strings.Cut(cfg.Token, ":")
	return &Sender{cfg: cfg, base: server.JoinPath("bot" + cfg.Token), scope: "telegram:" + bot}, nil
}

// reach returns the addresses that connections may reach: a server that the app names may be in its own network.
func (c *Config) reach() urlguard.Targets {
	if c.BaseURL != DefaultURL {
		return c.Targets.And(urlguard.Networks)
	}
	return c.Targets
}

// parseServer reads the URL of a Bot API server. Should the URL lead to another kind of server, only a path with the token in it can be
// requested there. For this reason the URL may be http, and may lead to private networks.
func parseServer(raw string, targets urlguard.Targets) (*url.URL, error) {
	u, err := urlguard.All.ParseBase(raw)
	if err != nil {
		return nil, err // the caller names the setting
	}
	return u, targets.And(urlguard.Networks).CheckHost(u)
}

// Close closes unused connections. Messages can still be sent.
func (s *Sender) Close() error {
	s.cfg.Client.CloseIdleConnections()
	return nil
}

// response is the envelope of every method's answer.
type response struct {
	OK          bool            `json:"ok"`
	Result      json.RawMessage `json:"result"`
	Description string          `json:"description"`
	Parameters  struct {
		RetryAfter int64 `json:"retry_after"`
		MigrateTo  int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// call calls a method of the Bot API. It returns this channel's errors; if the chat has moved, moved is its new id.
func (s *Sender) call(ctx context.Context, client *http.Client, method string, params any, into any) (moved int64, err error) {
	body, err := json.Marshal(params)
	if err != nil {
		return 0, &push.PermanentError{Reason: "the message cannot be encoded"}
	}
	return s.exchange(ctx, client, method, bytes.NewReader(body), int64(len(body)), "application/json", into)
}

// exchange is call with an encoded body, which it reads once.
func (s *Sender) exchange(ctx context.Context, client *http.Client, method string, body io.Reader, size int64, kind string, into any) (moved int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base.JoinPath(method).String(), body)
	if err != nil {
		return 0, &push.ConfigError{Scope: s.scope, Reason: "telegram: base_url makes no valid URL"}
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", kind)
	a, err := provider.DoUpTo(client, req, "telegram", s.scope, maxAnswer)
	if err != nil {
		return 0, err
	}
	var r response
	readable := a.Cut == nil && json.Unmarshal(a.Body, &r) == nil
	switch {
	case a.Status == http.StatusOK && r.OK && readable:
		if into != nil && json.Unmarshal(r.Result, into) != nil {
			return 0, &push.UnknownError{Reason: "telegram accepted the message with an answer that cannot be read"}
		}
		return 0, nil
	case a.Status >= 500, a.Status < 300 && !a.Page():
		// A proxy's page, an internal error or a truncated answer does not show whether the message was sent.
		return 0, &push.UnknownError{Reason: fmt.Sprintf("telegram answered %d without saying what became of the message", a.Status)}
	case !readable || r.Description == "":
		// A proxy's page: no gateway of Telegram's answers with this status, so nothing was sent.
		return 0, s.byStatus(&a)
	}
	return r.Parameters.MigrateTo, s.judge(&a, &r)
}

// byStatus interprets an answer that is not Telegram's own.
func (s *Sender) byStatus(a *provider.Answer) error {
	err := (&provider.Table{Name: "telegram", Scope: s.scope, Quiet: true, Denied: func(_ int, reason string) error {
		return &push.ObjectionError{Scope: s.scope, Reason: reason, Shared: push.Host}
	}}).Judge(a, s.cfg.Now())
	var retry *push.RetryError
	var gone *push.GoneError
	switch {
	case errors.As(err, &retry) && a.Status == http.StatusTooManyRequests:
		retry.Credential = true // no limit of Telegram's answered with this status concerns one chat alone
	case errors.As(err, &gone):
		return &push.RetryError{Scope: s.scope, Reason: gone.Reason}
	}
	return err
}

// partFailed is in the description if one message of an album failed. Telegram may have sent the other messages.
const partFailed = "failed to send message #"

// gone lists the beginnings of Telegram's descriptions, after "Forbidden: ", for chats that the bot has lost.
var gone = []string{
	"bot was blocked", "user is deactivated", "bot was kicked", "bot is not a member", "bot can't initiate conversation",
	"bot can't send messages to bots", "bots can't send messages to bots", "the group chat was deleted",
}

// judge converts a refusal into an error; nil: the message is already as requested.
func (s *Sender) judge(a *provider.Answer, r *response) error {
	said := fmt.Sprintf("telegram answered %d: %s", a.Status, provider.Clip(s.redact(r.Description)))
	switch a.Status {
	case http.StatusTooManyRequests:
		after := provider.Bounded(time.Duration(r.Parameters.RetryAfter) * time.Second)
		if after == 0 {
			after = provider.RetryAfter(a.Header, s.cfg.Now())
		}
		return &push.RetryError{After: after, Credential: true, Scope: s.scope, Reason: said}
	case http.StatusUnauthorized:
		return &push.ConfigError{Scope: s.scope, Reason: said + ": the bot's token is refused"}
	case http.StatusNotFound:
		return &push.ObjectionError{Scope: s.scope, Reason: said + ": the bot's token is refused, or base_url leads to another server"}
	case http.StatusBadRequest:
		if strings.HasPrefix(r.Description, unchanged) {
			return nil
		}
		if strings.Contains(r.Description, partFailed) {
			return &push.UnknownError{Reason: said + ": other parts of the album may have arrived"}
		}
	case http.StatusConflict:
		return &push.ObjectionError{Scope: s.scope, Reason: said, Shared: push.Host}
	case http.StatusForbidden:
		why := strings.TrimPrefix(r.Description, "Forbidden: ")
		for _, g := range gone {
			if strings.HasPrefix(why, g) {
				return &push.GoneError{Reason: said}
			}
		}
	}
	return &push.PermanentError{Reason: said}
}

// redact removes the token from Telegram's texts, should they ever repeat it.
func (s *Sender) redact(text string) string { return strings.ReplaceAll(text, s.cfg.Token, "…") }

// Send makes one attempt. If a group has become a supergroup, Send fails with the new id: the caller may already have an endpoint for it.
func (s *Sender) Send(ctx context.Context, r push.Request) (push.Receipt, error) {
	chat, thread, err := parseChat(r.Address)
	if err != nil {
		return push.Receipt{}, &push.PermanentError{Reason: "address: " + err.Error()}
	}
	switch {
	case r.Recall:
		return push.Receipt{}, &push.PermanentError{Reason: "telegram has no message that recalls another"}
	case !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(s.cfg.Now()):
		return push.Receipt{}, &push.PermanentError{Reason: "expired before it was sent"}
	}
	method, m, err := compose(&r.Content)
	if err != nil {
		return push.Receipt{}, &push.PermanentError{Reason: err.Error()}
	}
	m.ChatID, m.Thread = chat, thread
	return s.post(ctx, method, m)
}

// sentMessage is a message in Telegram's answer.
type sentMessage struct {
	MessageID int64 `json:"message_id"`
	Chat      struct {
		ID int64 `json:"id"`
	} `json:"chat"`
}

// post sends a composed message.
func (s *Sender) post(ctx context.Context, method string, m *message) (receipt push.Receipt, err error) {
	sent := make([]sentMessage, 1)
	into := any(&sent[0])
	if method == sendAlbum {
		into = &sent
	}
	moved, err := s.call(ctx, s.cfg.Client, method, m, into)
	switch {
	case moved != 0: // moved to a supergroup; the old group had no topics
		return receipt, &push.MovedError{Address: address(moved), Reason: "the group has moved to chat " + itoa(moved)}
	case err == nil && len(sent) == 0:
		err = &push.UnknownError{Reason: "telegram accepted the album and named none of its messages"}
	case err == nil:
		receipt.ExternalID = externalID(sent)
	}
	return receipt, err
}

// Weight implements push.Weigher: Telegram counts each message of an album.
func (s *Sender) Weight(c *push.Content) int { return c.Telegram.Messages() }

// Recall deletes messages, up to 100 of one chat in a single call, and an album's messages together.
func (s *Sender) Recall(ctx context.Context, sent []push.Sent) []error {
	errs := make([]error, len(sent))
	chats := map[int64][]deletion{}
	for i := range sent {
		chat, ids, ok := parseIDs(sent[i].ExternalID)
		switch {
		case !ok:
			errs[i] = &push.PermanentError{Reason: "its message id is not known"}
		case s.cfg.Now().Sub(sent[i].At) >= deleteWhile:
			errs[i] = &push.PermanentError{Reason: "telegram deletes messages only within 48 hours"}
		default:
			chats[chat] = append(chats[chat], deletion{at: i, ids: ids})
		}
	}
	for chat, all := range chats {
		for len(all) > 0 {
			n, ids := 0, 0
			for n < len(all) && ids+len(all[n].ids) <= deleteMost {
				ids += len(all[n].ids)
				n++
			}
			s.delete(ctx, chat, all[:n], errs)
			all = all[n:]
		}
	}
	return errs
}

// deletion is a delivery whose messages are to be deleted, with its place in the request.
type deletion struct {
	at  int
	ids []int64
}

func (s *Sender) delete(ctx context.Context, chat int64, all []deletion, errs []error) {
	var ids []int64
	for _, d := range all {
		ids = append(ids, d.ids...)
	}
	_, err := s.call(ctx, s.cfg.Client, "deleteMessages", map[string]any{"chat_id": chat, "message_ids": ids}, nil)
	for _, d := range all {
		errs[d.at] = err
	}
}

// externalID names the messages of one delivery: chat/message, or chat/message,message for an album.
func externalID(sent []sentMessage) string {
	b := strconv.AppendInt(nil, sent[0].Chat.ID, 10)
	for i, m := range sent {
		b = strconv.AppendInt(append(b, "/,"[min(i, 1)]), m.MessageID, 10)
	}
	return string(b)
}

// parseIDs reads an external id: at most as many messages as an album has.
func parseIDs(s string) (chat int64, messages []int64, ok bool) {
	c, list, _ := strings.Cut(s, "/")
	chat, err := strconv.ParseInt(c, 10, 64)
	if err != nil {
		return 0, nil, false
	}
	for text := range strings.SplitSeq(list, ",") {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || len(messages) == push.MaxAlbum {
			return 0, nil, false
		}
		messages = append(messages, id)
	}
	return chat, messages, true
}

// Pace returns the rate of the bot's messages to all chats together, and the interval between two messages to this chat, which is longer
// for groups.
func (s *Sender) Pace(address json.RawMessage) push.Pace {
	p := push.Pace{Scope: s.scope, Rate: botRate}
	chat, _, err := parseChat(address)
	if err != nil {
		return p
	}
	p.Chat, p.Every = strings.ToLower(chat), chatEvery // @Name and @name are one chat
	if chat[0] == '-' || chat[0] == '@' {
		p.Every = groupEvery
	}
	return p
}

// Check queries the bot's name.
func (s *Sender) Check(ctx context.Context) (string, error) {
	var me struct {
		Username string `json:"username"`
	}
	if _, err := s.call(ctx, s.cfg.Client, "getMe", struct{}{}, &me); err != nil {
		return "", provider.Checked(err)
	}
	return "bot @" + provider.Clip(me.Username), nil
}
