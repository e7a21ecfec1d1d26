package telegram_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/internal/sending/telegram"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "424242:AAExampleSecretOfTheBot"

func start(t testing.TB, o botserver.Options, change ...func(*telegram.Config)) (*botserver.Server, *telegram.Sender) {
	t.Helper()
	o.Token = token
	server := botserver.Start(o)
	t.Cleanup(server.Close)
	client := provider.Client(urlguard.All)
	t.Cleanup(client.CloseIdleConnections)
	cfg := telegram.Config{Token: token, BaseURL: server.URL, Targets: urlguard.All, Client: client}
	for _, f := range change {
		f(&cfg)
	}
	s, err := telegram.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return server, s
}

func TestConformance(t *testing.T) {
	faults := map[sendertest.Situation]botserver.Fault{
		sendertest.Accepts: botserver.None, sendertest.TooMany: botserver.Flood, sendertest.Fails: botserver.Failing, sendertest.Refuses: botserver.Refuse,
		sendertest.Redirects: botserver.Redirect, sendertest.Babbles: botserver.HTML, sendertest.Hangs: botserver.Hang, sendertest.Breaks: botserver.Drop,
	}
	sendertest.Run(t, sendertest.Suite{
		New: func(t *testing.T) *sendertest.Bed {
			server, s := start(t, botserver.Options{})
			bed := &sendertest.Bed{
				Sender: s, Scope: "telegram:424242", Secrets: []string{token, "AAExampleSecretOfTheBot"},
				Request: func(id string) push.Request {
					return push.Request{ID: id, Address: json.RawMessage(`{"chat_id":"7"}`), Content: push.Content{Title: "Hi"}}
				},
				Took: func() int { return len(server.Messages()) },
			}
			bed.Put = func(situation sendertest.Situation) bool {
				switch situation {
				case sendertest.Unreachable:
					server.Close()
				case sendertest.Gone:
					server.Put(7, botserver.Blocked)
				case sendertest.Denies:
					other, err := telegram.New(telegram.Config{Token: "424242:AAAnotherSecretOfTheBot", BaseURL: server.URL, Targets: urlguard.All})
					if err != nil {
						t.Fatal(err)
					}
					bed.Sender = other
				default:
					f, known := faults[situation]
					server.Break(f, -1)
					return known
				}
				return true
			}
			return bed
		},
		// Telegram has no idempotency keys, so a failed message that may have been sent is not repeated automatically.
		Outcomes: map[sendertest.Situation]sendertest.Outcome{sendertest.Fails: sendertest.Unknown, sendertest.Babbles: sendertest.Unknown},
	})
}

func send(t *testing.T, s *telegram.Sender, chat string, c push.Content) (push.Receipt, error) {
	t.Helper()
	return s.Send(t.Context(), push.Request{ID: "d", Address: json.RawMessage(`{"chat_id":` + chat + `}`), Content: c})
}

func TestTextIsEscapedAsItsModeDemands(t *testing.T) {
	server, s := start(t, botserver.Options{})
	for _, c := range []struct {
		content    push.Content
		mode, text string
	}{
		{push.Content{Title: "1 < 2 & 3", Body: "<b>not bold</b>", URL: "https://a.example/?x=1&y=2"}, "HTML", "<b>1 &lt; 2 &amp; 3</b>\n&lt;b&gt;not bold&lt;/b&gt;\n\nhttps://a.example/?x=1&amp;y=2"},
		{push.Content{Body: "just text"}, "HTML", "just text"},
		{push.Content{Title: "T", URL: "https://u"}, "HTML", "<b>T</b>\n\nhttps://u"},
		{push.Content{Title: "T", Body: "<i>ours</i>", Telegram: push.TelegramContent{ParseMode: "HTML"}}, "HTML", "<b>T</b>\n<i>ours</i>"},
		{push.Content{Title: "T", Body: "it\\.", URL: "https://a-b.example", Telegram: push.TelegramContent{ParseMode: "MarkdownV2"}}, "MarkdownV2", "*T*\nit\\.\n\nhttps://a\\-b\\.example"},
	} {
		if _, err := send(t, s, "7", c.content); err != nil {
			t.Errorf("%+v: %v", c.content, err)
			continue
		}
		all := server.Messages()
		if m := all[len(all)-1]; m.Mode != c.mode || m.Text != c.text {
			t.Errorf("mode %s text %q, want %s %q", m.Mode, m.Text, c.mode, c.text)
		}
	}
	if got := telegram.EscapeMarkdown("a_b*[c](d)~`>#+-=|{}.!\\é"); got != "a\\_b\\*\\[c\\]\\(d\\)\\~\\`\\>\\#\\+\\-\\=\\|\\{\\}\\.\\!\\\\é" {
		t.Errorf("markdown %s", got)
	}
}

func TestPhotoCarriesTheTextAsItsCaption(t *testing.T) {
	server, s := start(t, botserver.Options{})
	if _, err := send(t, s, `"7"`, push.Content{Title: "T", Telegram: push.TelegramContent{Photo: "https://p.example/1.jpg", Silent: true}}); err != nil {
		t.Fatal(err)
	}
	if m := server.Messages()[0]; m.Method != "sendPhoto" || m.Media == "" || m.Text != "<b>T</b>" || !m.Silent {
		t.Errorf("%+v", m)
	}
	for body, fits := range map[string]bool{strings.Repeat("x", 1024): true, strings.Repeat("x", 1025): false, strings.Repeat("🐦", 512): true, strings.Repeat("🐦", 513): false} {
		_, err := send(t, s, "8", push.Content{Body: body, Telegram: push.TelegramContent{Photo: "id"}})
		if (err == nil) != fits {
			t.Errorf("%d bytes: %v", len(body), err)
		}
	}
}

func TestEveryKindOfMediaHasItsMethod(t *testing.T) {
	server, s := start(t, botserver.Options{})
	for method, c := range map[string]push.TelegramContent{
		"sendPhoto": {Photo: "f"}, "sendVideo": {Video: "f"}, "sendAnimation": {Animation: "f"}, "sendAudio": {Audio: "f"}, "sendDocument": {Document: "f"},
	} {
		if _, err := send(t, s, "7", push.Content{Title: "T", Telegram: c}); err != nil {
			t.Errorf("%s: %v", method, err)
			continue
		}
		all := server.Messages()
		if m := all[len(all)-1]; m.Method != method || m.Media != "f" || m.Text != "<b>T</b>" {
			t.Errorf("%s: %+v", method, m)
		}
	}
	_, err := send(t, s, "7", push.Content{Title: "T", Telegram: push.TelegramContent{Photo: "f", Video: "g"}})
	if sendertest.OutcomeOf(err) != sendertest.Permanent {
		t.Errorf("two media: %v", err)
	}
}

func TestAFileIsUploadedOnceAndNamedByItsID(t *testing.T) {
	server, s := start(t, botserver.Options{})
	for _, m := range push.TelegramMediums {
		body := "bytes of a " + m.Name
		upload := func(address string) (string, error) {
			return s.Upload(t.Context(), json.RawMessage(address), &push.File{Type: m.Name, Name: "招聘 menu.pdf", Size: int64(len(body)), Body: strings.NewReader(body + "what follows")})
		}
		id, err := upload(`{"chat_id":7}`)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		all := server.Messages()
		last := all[len(all)-1]
		if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))[:16]; last.Media != id || !strings.Contains(id, "招聘 menu.pdf") || !strings.HasSuffix(id, sum) || !last.Uploaded || !last.Silent || !last.Deleted {
			t.Errorf("%s: %q, %+v", m.Name, id, last)
		}
		var c push.TelegramContent
		*m.Of(&c) = id
		if _, err := send(t, s, "8", push.Content{Title: "T", Telegram: c}); err != nil {
			t.Error(err)
		}
		server.Put(9, botserver.Blocked)
		if _, err := upload(`{"chat_id":9}`); push.Outcome(err) != "gone" {
			t.Errorf("to a chat that blocked the bot: %v", err)
		}
	}
	id, err := s.Upload(t.Context(), json.RawMessage(`{"chat_id":7}`), &push.File{Type: "document", Name: "a.pdf", Size: -1, Body: strings.NewReader("of unknown size")})
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte("of unknown size")))[:16]; err != nil || !strings.HasSuffix(id, sum) {
		t.Errorf("a file of unknown size: %q, %v", id, err)
	}
	if s.MaxFile("photo") != 10<<20 || s.MaxFile("document") != 50<<20 || s.MaxFile("hologram") != 0 {
		t.Error("the limits are not Telegram's")
	}
}

func TestAStickerIsSentWithoutText(t *testing.T) {
	server, s := start(t, botserver.Options{})
	receipt, err := send(t, s, "7", push.Content{Title: "T", Telegram: push.TelegramContent{ParseMode: "HTML", Sticker: "f", Buttons: link("Open")}})
	if err != nil {
		t.Fatal(err)
	}
	if m := server.Messages()[0]; m.Method != "sendSticker" || m.Media != "f" || m.Text != "" || m.Mode != "" || m.Buttons == "" {
		t.Errorf("%+v", m)
	}
	err = s.Correct(t.Context(), push.Sent{ExternalID: receipt.ExternalID, Request: push.Request{Content: push.Content{Title: "New", Telegram: push.TelegramContent{Sticker: "f"}}}})
	if sendertest.OutcomeOf(err) != sendertest.Permanent {
		t.Errorf("a sticker without text was corrected: %v", err)
	}
}

func TestAnAlbumIsCorrectedAndDeletedWhole(t *testing.T) {
	server, s := start(t, botserver.Options{})
	c := push.Content{Title: "A", Telegram: push.TelegramContent{Silent: true, Album: []push.TelegramMedia{{Type: "photo", Media: "p"}, {Type: "video", Media: "v"}, {Type: "photo", Media: "q"}}}}
	if n := s.Weight(&c); n != 3 {
		t.Errorf("it counts as %d messages", n)
	}
	receipt, err := send(t, s, "-7", c)
	if err != nil || receipt.ExternalID != "-7/1,2,3" {
		t.Fatalf("%+v, %v", receipt, err)
	}
	for i, m := range server.Messages() {
		text := []string{"<b>A</b>", "", ""}[i]
		if m.Method != "sendMediaGroup" || m.Media != []string{"photo p", "video v", "photo q"}[i] || m.Text != text || !m.Silent {
			t.Errorf("part %d: %+v", i, m)
		}
	}
	c.Title = "B"
	sent := push.Sent{ExternalID: receipt.ExternalID, Request: push.Request{Content: c}, At: time.Now()}
	if err := s.Correct(t.Context(), sent); err != nil {
		t.Error(err)
	}
	if m := server.Messages()[0]; m.Text != "<b>B</b>" {
		t.Errorf("corrected: %+v", m)
	}
	if errs := s.Recall(t.Context(), []push.Sent{sent}); errs[0] != nil {
		t.Error(errs)
	}
	for _, m := range server.Messages() {
		if !m.Deleted {
			t.Errorf("message %d of the album stays", m.ID)
		}
	}
}

func TestAnAlbumOfWhichAPartFailedIsNotSentAgain(t *testing.T) {
	server, s := start(t, botserver.Options{})
	server.Break(botserver.Part, 1)
	c := push.Content{Title: "A", Telegram: push.TelegramContent{Album: []push.TelegramMedia{{Type: "photo", Media: "p"}, {Type: "photo", Media: "q"}}}}
	if _, err := send(t, s, "7", c); sendertest.OutcomeOf(err) != sendertest.Unknown || !strings.Contains(err.Error(), "retry after 8") {
		t.Errorf("%v, and the chat has %d messages", err, len(server.Messages()))
	}
}

func TestButtonsPreviewAndTopicReachTelegram(t *testing.T) {
	server, s := start(t, botserver.Options{})
	_, err := s.Send(t.Context(), push.Request{ID: "d", Address: json.RawMessage(`{"chat_id":-100,"message_thread_id":9}`), Content: push.Content{
		Title: "*", Body: "x", Telegram: push.TelegramContent{ParseMode: "Markdown"},
	}})
	if sendertest.OutcomeOf(err) != sendertest.Permanent {
		t.Errorf("a title that is no Markdown: %v", err)
	}
	_, err = s.Send(t.Context(), push.Request{ID: "d", Address: json.RawMessage(`{"chat_id":-100,"message_thread_id":9}`), Content: push.Content{
		Title: "T", Body: "_x_", URL: "https://a_b.example",
		Telegram: push.TelegramContent{ParseMode: "Markdown", NoPreview: true, Buttons: [][]push.TelegramLink{{{Text: "Open", URL: "https://x.example/?a=1&b=2"}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var markup struct {
		Keyboard [][]struct{ Text, URL string } `json:"inline_keyboard"`
	}
	m := server.Messages()[0]
	if err := json.Unmarshal([]byte(m.Buttons), &markup); err != nil || len(markup.Keyboard) != 1 || markup.Keyboard[0][0].URL != "https://x.example/?a=1&b=2" {
		t.Errorf("buttons %s (%v)", m.Buttons, err)
	}
	if m.Mode != "Markdown" || m.Text != "*T*\n_x_\n\nhttps://a\\_b.example" || m.Thread != 9 || !m.Plain {
		t.Errorf("%+v", m)
	}
}

func TestServerOfOnesOwnMayBeInItsNetwork(t *testing.T) {
	server := botserver.Start(botserver.Options{Token: token})
	t.Cleanup(server.Close)
	s, err := telegram.New(telegram.Config{Token: token, BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if about, err := s.Check(t.Context()); err != nil || about != "bot @test_bot" {
		t.Errorf("%q, %v", about, err)
	}
	for _, bad := range []string{
		"http://169.254.169.254/latest", "http://[fe80::1]/", "http://0.0.0.0:8081", "http://127.0.0.1:8081/x?y=", "http://127.0.0.1:8081/x?", "http://u:p@127.0.0.1/", "ftp://127.0.0.1/",
	} {
		if _, err := telegram.New(telegram.Config{Token: token, BaseURL: bad}); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestLostChatsAreTold(t *testing.T) {
	server, s := start(t, botserver.Options{})
	for state, want := range map[botserver.State]sendertest.Outcome{
		botserver.Blocked: sendertest.IsGone, botserver.Deactivated: sendertest.IsGone, botserver.Kicked: sendertest.IsGone,
		botserver.NotFound: sendertest.Permanent, "Forbidden: something new": sendertest.Permanent,
	} {
		server.Put(7, state)
		_, err := send(t, s, "7", push.Content{Body: "x"})
		if got := sendertest.OutcomeOf(err); got != want {
			t.Errorf("%s: %s (%v), want %s", state, got, err, want)
		}
		if state == botserver.NotFound && !strings.Contains(err.Error(), "chat not found") {
			t.Errorf("not found is told as %v", err)
		}
	}
}

func TestAMovedGroupIsToldWithItsNewID(t *testing.T) {
	server, s := start(t, botserver.Options{})
	server.Move(-5, -1005)
	_, err := send(t, s, "-5", push.Content{Body: "x"})
	var moved *push.MovedError
	if !errors.As(err, &moved) || string(moved.Address) != `{"chat_id":-1005}` || len(server.Messages()) > 0 {
		t.Errorf("%v, %d messages", err, len(server.Messages()))
	}
}

func TestFloodOfTheBotWaitsAsLongAsItIsTold(t *testing.T) {
	now := time.Now() // the clock stands still: all messages fall into one second
	_, s := start(t, botserver.Options{Rate: 3, Retry: 4, Now: func() time.Time { return now }})
	var err error
	for i := range 4 {
		_, err = send(t, s, fmt.Sprint(i+1), push.Content{Body: "x"})
	}
	var retry *push.RetryError
	if !errors.As(err, &retry) || retry.After != 4*time.Second || !retry.Credential {
		t.Errorf("%v", err)
	}
}

func TestRecallDeletesWhatItCanAndSaysWhatNot(t *testing.T) {
	now := time.Now()
	server, s := start(t, botserver.Options{Now: func() time.Time { return now }}, func(c *telegram.Config) { c.Now = func() time.Time { return now } })
	var sent []push.Sent
	for i := range 150 {
		chat := "7"
		if i >= 120 {
			chat = fmt.Sprint(i)
		}
		r, err := send(t, s, chat, push.Content{Body: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, push.Sent{ExternalID: r.ExternalID, At: now})
	}
	sent[0].At = now.Add(-48 * time.Hour)
	sent[1].ExternalID = ""
	server.Put(149, botserver.Blocked)
	for i, err := range s.Recall(t.Context(), sent) {
		want := sendertest.Accepted
		switch i {
		case 0, 1:
			want = sendertest.Permanent
		case 149:
			want = sendertest.IsGone
		}
		if got := sendertest.OutcomeOf(err); got != want {
			t.Errorf("message %d: %s (%v), want %s", i, got, err, want)
		}
	}
	for i, m := range server.Messages() {
		if want := i != 0 && i != 1 && i != 149; m.Deleted != want {
			t.Errorf("message %d deleted: %t", i, m.Deleted)
		}
	}
}

func TestPaceIsTheBotsAndTheChats(t *testing.T) {
	_, s := start(t, botserver.Options{})
	for address, every := range map[string]time.Duration{`{"chat_id":"7"}`: time.Second, `{"chat_id":7}`: time.Second, `{"chat_id":"-7"}`: 3 * time.Second, `{"chat_id":"@news"}`: 3 * time.Second} {
		if p := s.Pace(json.RawMessage(address)); p.Rate != 30 || p.Every != every || p.Chat == "" {
			t.Errorf("%s: %+v", address, p)
		}
	}
	if about, err := s.Check(t.Context()); err != nil || about != "bot @test_bot" {
		t.Errorf("%q, %v", about, err)
	}
}

func TestBadTokensAreRefusedWithoutBeingShown(t *testing.T) {
	for _, bad := range []string{"", "x", "123", "123:short", "123:has space in it", "123:../../../etc/passwd"} {
		if _, err := telegram.New(telegram.Config{Token: bad}); err == nil || bad != "" && len(bad) > 3 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// crowd is an audience that fails sometimes.
type crowd struct {
	mu    sync.Mutex
	fails int
	said  []string
	heard chan struct{}
}

func (c *crowd) note(text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails > 0 {
		c.fails--
		return errors.New("disk full")
	}
	c.said = append(c.said, text)
	c.heard <- struct{}{}
	return nil
}

func (c *crowd) Join(_ context.Context, app string, chat telegram.Chat) error {
	return c.note(strings.TrimSpace(fmt.Sprintf("%s join %s %s %s %s", app, chat.Address, chat.Name, chat.Locale, chat.Start)))
}

func (c *crowd) Press(_ context.Context, app, data string) error {
	return c.note(app + " press " + data)
}

func (c *crowd) Leave(_ context.Context, app string, address json.RawMessage, reason string) error {
	return c.note(fmt.Sprintf("%s leave %s %s", app, address, reason))
}

func TestListenerKeepsTheAudienceAndLosesNoUpdate(t *testing.T) {
	server, s := start(t, botserver.Options{})
	server.Say(7, "nb", "/start ref-1")
	for range 30 {
		server.Say(7, "nb", strings.Repeat("\u00e6", 4000))
	}
	ctx, stop := context.WithCancel(t.Context())
	c, done := &crowd{fails: 1, heard: make(chan struct{}, 10)}, make(chan error, 1)
	go func() { done <- s.Listen(ctx, "shop", c, slog.New(slog.DiscardHandler)) }()
	<-c.heard
	server.Say(9, "", "/start@another_bot")
	server.Say(8, "", "/start@Test_Bot\nhello")
	server.Say(7, "nb", "/stop@another_bot")
	server.Say(7, "nb", "/stopped")
	server.Say(7, "nb", "/Stop")
	server.Member(8, "member")
	server.Member(8, "kicked")
	server.SayInTopic(-100, 9, "/start")
	for range 4 {
		<-c.heard
	}
	for server.Waiting() > 0 {
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	want := []string{
		`shop join {"chat_id":7} A nb ref-1`, `shop join {"chat_id":8} A  hello`, `shop leave {"chat_id":7} said /stop`, `shop leave {"chat_id":8} blocked or removed the bot`,
		`shop join {"chat_id":-100,"message_thread_id":9}`,
	}
	if got := strings.Join(c.said, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("heard\n%s", got)
	}
}
