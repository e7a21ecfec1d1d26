package telegram_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/sender/provider"
	"godwit.dev/godwit/internal/sender/telegram"
)

// What a proxy answers with a status from 300 to 399 never reached the bot: no message went out.
func TestEveryRedirectIsRefusedForGood(t *testing.T) {
	for status, permanent := range map[int]bool{http.StatusMultipleChoices: true, http.StatusFound: true, 399: true, http.StatusNoContent: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		client := provider.Client(true)
		s, err := telegram.New(telegram.Config{Token: token, BaseURL: server.URL, AllowPrivate: true, Client: client})
		if err != nil {
			t.Fatal(err)
		}
		_, err = send(t, s, "7", push.Content{Body: "x"})
		var refused *push.PermanentError
		var unknown *push.UnknownError
		if errors.As(err, &refused) != permanent || errors.As(err, &unknown) == permanent {
			t.Errorf("%d: %v", status, err)
		}
		client.CloseIdleConnections()
		server.Close()
	}
}
