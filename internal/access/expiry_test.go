package access

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"godwit.dev/godwit/internal/access/urlguard"
)

// wire answers requests without a network, so that synctest can control the time.
type wire struct {
	hits int
	body string // empty: nobody answers
}

func (w *wire) RoundTrip(*http.Request) (*http.Response, error) {
	w.hits++
	if w.body == "" {
		return nil, errors.New("nobody answers")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(w.body))}, nil
}

func keySet(t *testing.T, kids ...string) string {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, kid := range kids {
		public, _, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: public, KeyID: kid})
	}
	b, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestKeySetIsRenewedAndOutlivesAShortOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{body: keySet(t, "a", "b")}
		c := newJWKSCache(newFetcher(&http.Client{Transport: w}, urlguard.All), slog.New(slog.DiscardHandler))
		has := func(kid string) bool {
			t.Helper()
			keys, err := c.keys(context.Background(), jwksID{"shop", "https://id.example"}, kid, time.Now(), true)
			return err == nil && hasKID(keys, kid)
		}
		for at, step := range []struct {
			wait time.Duration
			body string
			kid  string
			want bool
			hits int
		}{
			{0, w.body, "a", true, 1},
			{jwksRefresh - time.Second, w.body, "a", true, 1},
			{2 * time.Second, keySet(t, "b"), "a", false, 2}, // withdrawn, noticed when renewed
			{time.Second, keySet(t, "c"), "c", true, 3},      // new, noticed at once
			{2 * jwksRefresh, "", "c", true, 4},              // the server does not answer: the old keys are still valid
			{jwksStale, "", "c", false, 5},                   // but not for ever
			{time.Minute, keySet(t, "d"), "d", true, 6},
		} {
			time.Sleep(step.wait)
			w.body = step.body
			if got := has(step.kid); got != step.want || w.hits != step.hits {
				t.Errorf("step %d: key %s there: %t, want %t; %d fetches, want %d", at, step.kid, got, step.want, w.hits, step.hits)
			}
		}
	})
}

func TestAnswersAboutTokensAreRememberedForTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		i := newIntrospector(newFetcher(&http.Client{Transport: w}, urlguard.All))
		ask := func(token, body string, wantHits int, want error) {
			t.Helper()
			w.hits, w.body = 0, body
			_, err := i.verify(context.Background(), &App{Name: "shop", IntrospectURL: "https://id.example"}, token, time.Now(), true)
			if !errors.Is(err, want) || w.hits != wantHits {
				t.Errorf("%v, want %v; %d questions, want %d", err, want, w.hits, wantHits)
			}
		}
		const yes, no = `{"active":true,"sub":"a"}`, `{"active":false}`
		ask("t", yes, 1, nil)
		time.Sleep(positiveFor - time.Second)
		ask("t", no, 0, nil)
		time.Sleep(2 * time.Second)
		ask("t", no, 1, ErrUnauthenticated) // revoked
		time.Sleep(negativeFor - time.Second)
		ask("t", yes, 0, ErrUnauthenticated)
		time.Sleep(2 * time.Second)
		ask("t", yes, 1, nil)

		exp, err := json.Marshal(map[string]any{"active": true, "sub": "a", "exp": time.Now().Add(20 * time.Second).Unix()})
		if err != nil {
			t.Fatal(err)
		}
		ask("short", string(exp), 1, nil)
		time.Sleep(21 * time.Second)
		ask("short", "", 1, ErrUnavailable)
	})
}
