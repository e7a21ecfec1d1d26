package webpage

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// stage is a development server, and a person in front of its console who has not signed in.
type stage struct {
	*person
	server *blackbox.Server
	api    *blackbox.API
}

func newStage(t *testing.T, args ...string) *stage {
	t.Helper()
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args(args...))
	return &stage{newPerson(t, "http://"+server.HTTP), server, server.API()}
}

func (s *stage) call(method, path string, body any) {
	s.Helper()
	s.api.Call(s, method, path, body, nil)
}

const botToken = "123456789:AAExampleExampleExampleExample1234567"

// newBot starts a server in Telegram's place, with a bot that has botToken.
func newBot(t *testing.T) *botserver.Server {
	t.Helper()
	bot := botserver.Start(botserver.Options{Token: botToken})
	t.Cleanup(bot.Close)
	return bot
}

// has connects the bot.
func (s *stage) has(bot *botserver.Server) {
	s.Helper()
	s.call(http.MethodPut, "/v1/channels/telegram", map[string]any{"token": botToken, "base_url": bot.URL})
}

// chats is the number of chats that hasChats imports.
const chats = 60

// hasChats connects the bot, and imports its chats: half are of the station north, half of south.
func (s *stage) hasChats(bot *botserver.Server) {
	s.Helper()
	s.has(bot)
	s.call(http.MethodPut, "/v1/templates/closed", map[string]any{"content": map[string]any{
		"title": "Closed, {{name|friend}}", "body": "The {{place}} is closed on Sunday.\nThe ferry goes from the harbour.",
		"telegram": map[string]any{"buttons": [][]map[string]string{{{"text": "Timetable", "url": "https://example.org/{{place}}"}}}},
	}})
	var lines bytes.Buffer
	for i := range chats {
		station := []string{"north", "south"}[i%2]
		fmt.Fprintf(&lines, `{"channel":"telegram","address":{"chat_id":%d},"tags":["tides"],"attributes":{"station":%q,"name":"Reader %d"}}`+"\n", 1000+i, station, i)
	}
	s.call(http.MethodPost, "/v1/endpoints/batch", lines.Bytes())
}

// telegram registers a chat for a recipient.
func (s *stage) telegram(to string, chat int) {
	s.Helper()
	s.call(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "telegram", "recipient": to, "address": map[string]any{"chat_id": chat}})
}

// publish publishes a notification with immediate pushes over these channels.
func (s *stage) publish(id, to string, push ...string) {
	s.Helper()
	n := map[string]any{"id": id, "to": to, "title": "New ride", "ttl": "1h"}
	var steps []map[string]string
	for _, channel := range append([]string{"live"}, push...) {
		steps = append(steps, map[string]string{"channel": channel})
	}
	if len(push) > 0 {
		n["escalate"] = steps
	}
	s.call(http.MethodPost, "/v1/notifications", n)
}

// ifChanged skips the test of pages that are as they were when all tests of this package passed. guard is the test that uses some of them on each change.
func ifChanged(t *testing.T, guard string) {
	t.Helper()
	thorough.IfChanged(t, "test/webpage", guard)
}
