package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"

	"godwit.dev/godwit/internal/sending/push"
)

// Chat is a chat that has subscribed to messages.
type Chat struct {
	Address json.RawMessage // of its endpoint
	Locale  string          // BCP 47, from the user's Telegram settings; empty: unknown
	Name    string          // the user's first name; empty in groups
	Start   string          // text after /start: the parameter of a deep link
}

// Audience stores what people say to the bot. Its methods may be called again for the same update.
type Audience interface {
	// Press records that somebody pressed a button with this data. Data of other origin is ignored.
	Press(ctx context.Context, app, data string) error
	// Join registers a chat, or enables it again.
	Join(ctx context.Context, app string, c Chat) error
	// Leave disables a chat, if it exists.
	Leave(ctx context.Context, app string, address json.RawMessage, reason string) error
}

const (
	pollFor    = 50 * time.Second // longest poll without news; Telegram's own server ends polls after about a minute
	pollSlack  = 15 * time.Second // for its answer to come
	retryFirst = time.Second      // after a poll that failed
	retryMost  = time.Minute
)

// Listens reports whether Listen is wanted.
func (s *Sender) Listens() bool { return s.cfg.Listens }

// update is an event of the bot. Only the requested kinds of updates arrive.
type update struct {
	ID      int64 `json:"update_id"`
	Message *struct {
		Chat struct {
			ID        int64  `json:"id"`
			FirstName string `json:"first_name"` // of private chats alone
		} `json:"chat"`
		Thread int64 `json:"message_thread_id"` // set for messages in a topic, but also for replies
		Topic  bool  `json:"is_topic_message"`
		From   struct {
			Language string `json:"language_code"`
		} `json:"from"`
		Text string `json:"text"`
	} `json:"message"`
	Callback *struct {
		ID   string `json:"id"`
		Data string `json:"data"`
	} `json:"callback_query"`
	Member *struct {
		Chat struct {
			ID int64 `json:"id"`
		} `json:"chat"`
		New struct {
			Status string `json:"status"`
		} `json:"new_chat_member"`
	} `json:"my_chat_member"`
}

// Listen handles the bot's updates until ctx ends: /start joins, /stop and blocking the bot leave. It confirms an update to Telegram only
// after the audience has handled it, so no update is lost, but one may arrive twice. A bot can have only one listener, and none while a
// webhook is set for it.
func (s *Sender) Listen(ctx context.Context, app string, audience Audience, log *slog.Logger) error {
	client := s.patient(pollFor + pollSlack)
	defer client.CloseIdleConnections()
	offset, wait := int64(0), retryFirst
	for ctx.Err() == nil {
		list, err := s.updates(ctx, client, offset)
		for i := 0; i < len(list) && err == nil; i++ {
			if err = s.handle(ctx, app, audience, &list[i]); err == nil {
				offset = list[i].ID + 1
			}
		}
		if err == nil {
			wait = retryFirst
			continue
		}
		if ctx.Err() != nil {
			break
		}
		log.WarnContext(ctx, "updates of the bot could not be taken; trying again", "app", app, "after", wait, "error", push.ForLog(err))
		var retry *push.RetryError
		pause := wait
		if errors.As(err, &retry) && retry.After > pause {
			pause = retry.After
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		wait = min(2*wait, retryMost)
	}
	return nil
}

func (s *Sender) updates(ctx context.Context, client *http.Client, offset int64) (list []update, err error) {
	_, err = s.call(ctx, client, "getUpdates", map[string]any{
		"offset": offset, "timeout": int(pollFor / time.Second), "allowed_updates": []string{"message", "my_chat_member", "callback_query"}, "limit": pollMost,
	}, &list)
	return list, err
}

// pollMost is the number of updates that always fit into maxAnswer, however long their texts are.
const pollMost = 20

// cutSpace splits a text at its first white space.
func cutSpace(text string) (before, after string, found bool) {
	if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 {
		return text[:i], text[i:], true
	}
	return text, "", false
}

// called reports whether a name is the bot's. A group may have several bots, and each receives the commands for the others too.
func (s *Sender) called(ctx context.Context, name string) (bool, error) {
	own := s.username.Load()
	if own == nil {
		var me struct {
			Username string `json:"username"`
		}
		if _, err := s.call(ctx, s.cfg.Client, "getMe", struct{}{}, &me); err != nil {
			return false, err
		}
		own = &me.Username
		s.username.Store(own)
	}
	return *own != "" && strings.EqualFold(name, *own), nil
}

func (s *Sender) handle(ctx context.Context, app string, audience Audience, u *update) error {
	switch {
	case u.Message != nil:
		command, rest, _ := cutSpace(strings.TrimSpace(u.Message.Text))
		command, to, named := strings.Cut(command, "@") // in groups: /start@name_of_the_bot
		command = strings.ToLower(command)              // in any case, as Telegram's clients accept them: keyboards begin a message with a capital
		if command != "/start" && command != "/stop" {
			return nil
		}
		if named {
			if ours, err := s.called(ctx, to); err != nil || !ours {
				return err
			}
		}
		chat := address(u.Message.Chat.ID)
		if u.Message.Topic && u.Message.Thread != 0 {
			chat = topicAddress(u.Message.Chat.ID, u.Message.Thread)
		}
		switch command {
		case "/start":
			return audience.Join(ctx, app, Chat{
				Address: chat, Locale: u.Message.From.Language, Name: u.Message.Chat.FirstName, Start: strings.TrimSpace(rest),
			})
		case "/stop":
			return audience.Leave(ctx, app, chat, "said /stop")
		}
	case u.Callback != nil:
		if err := audience.Press(ctx, app, u.Callback.Data); err != nil {
			return err
		}
		s.answer(ctx, u.Callback.ID)
	case u.Member != nil && (u.Member.New.Status == "kicked" || u.Member.New.Status == "left"):
		return audience.Leave(ctx, app, address(u.Member.Chat.ID), "blocked or removed the bot")
	}
	return nil
}

// answer ends the progress bar that Telegram shows on a pressed button until the bot answers. The press is stored already, and Telegram takes no
// answer after some seconds: an answer that fails is not repeated.
func (s *Sender) answer(ctx context.Context, query string) {
	_, _ = s.call(ctx, s.cfg.Client, "answerCallbackQuery", map[string]string{"callback_query_id": query}, nil)
}
