package telegram_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
	"godwit.dev/godwit/internal/sending/telegram"
)

// An answer with a status from 300 to 499 that does not come from Telegram means that the request never reached the bot: no message was
// sent.
func TestAnAnswerThatIsNotTelegramsIsJudgedByItsStatus(t *testing.T) {
	const page = "<html><body>nginx</body></html>"
	for _, c := range []struct {
		status int
		body   string
		want   sendertest.Outcome
	}{
		{http.StatusMultipleChoices, "", sendertest.RetryWho},
		{http.StatusFound, page, sendertest.RetryWho},
		{399, "", sendertest.RetryWho},
		{http.StatusTooManyRequests, page, sendertest.RetryAll},
		{http.StatusTooManyRequests, "", sendertest.RetryAll},
		{http.StatusTooManyRequests, "{}", sendertest.RetryAll},
		{http.StatusForbidden, page, sendertest.RetryWho},
		{http.StatusNotFound, page, sendertest.RetryWho},
		{http.StatusUnauthorized, "no", sendertest.Objects},
		{http.StatusGone, page, sendertest.RetryWho},
		{http.StatusRequestEntityTooLarge, page, sendertest.Permanent},
		{http.StatusNoContent, "", sendertest.Unknown},
		{http.StatusOK, page, sendertest.RetryWho},
		{http.StatusOK, "fine", sendertest.Unknown},
		{http.StatusBadGateway, page, sendertest.Unknown},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if c.status == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "7")
			}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		client := provider.Client(urlguard.All)
		s, err := telegram.New(telegram.Config{Token: token, BaseURL: server.URL, Targets: urlguard.All, Client: client})
		if err != nil {
			t.Fatal(err)
		}
		_, err = send(t, s, "7", push.Content{Body: "x"})
		if got := sendertest.OutcomeOf(err); got != c.want {
			t.Errorf("%d with %q: %s (%v), want %s", c.status, c.body, got, err, c.want)
		}
		var retry *push.RetryError
		if c.status == http.StatusTooManyRequests && (!errors.As(err, &retry) || retry.After != 7*time.Second) {
			t.Errorf("429 with %q: %v, want it again in 7 s", c.body, err)
		}
		client.CloseIdleConnections()
		server.Close()
	}
}
