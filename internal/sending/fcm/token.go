package fcm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/foreign"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	messagingScope = "https://www.googleapis.com/auth/firebase.messaging"
	// renewEarly is how long before its end a token is renewed; meanwhile it is still used.
	renewEarly = 5 * time.Minute
	// renewAgain is the wait after a failed renewal while the old token is still valid.
	renewAgain = 10 * time.Second
	// usualLife is the lifetime of Google's tokens, for answers that state none.
	usualLife = time.Hour
)

// tokens fetches access tokens and keeps the newest. A caller that needs a token while one is being fetched waits for it.
type tokens struct {
	account *Account
	client  *http.Client
	now     func() time.Time
	fetches sync.WaitGroup

	mu      sync.Mutex
	current token
	next    time.Time // no renewal is begun before
	flight  *flight   // nil: none is under way
}

type token struct {
	text  string
	until time.Time // it is valid
	renew time.Time // it should be replaced
}

// flight is one fetch.
type flight struct {
	done  chan struct{}
	token token
	err   error
}

// get returns a token other than refused, which FCM did not accept. Empty refused: any token.
func (t *tokens) get(ctx context.Context, refused string) (string, error) {
	now := t.now()
	t.mu.Lock()
	valid := t.current.text != "" && t.current.text != refused && now.Before(t.current.until)
	if valid && (now.Before(t.current.renew) || now.Before(t.next)) {
		text := t.current.text
		t.mu.Unlock()
		return text, nil
	}
	if t.flight == nil {
		t.flight = &flight{done: make(chan struct{})}
		t.fetches.Add(1)
		go t.fetch(t.flight)
	}
	f, text := t.flight, t.current.text
	t.mu.Unlock()
	if valid { // an early renewal delays nobody
		return text, nil
	}
	select {
	case <-f.done:
		return f.token.text, f.err
	case <-ctx.Done():
		return "", &push.RetryError{Reason: "not sent to " + name + ": " + provider.Cause(ctx)}
	}
}

// fetch completes a flight. All waiting callers share it, so the client's timeout limits it, and not their contexts.
func (t *tokens) fetch(f *flight) {
	defer t.fetches.Done()
	f.token, f.err = t.exchange()
	t.mu.Lock()
	if f.err == nil {
		t.current = f.token
	} else {
		t.next = t.now().Add(renewAgain)
	}
	t.flight = nil
	t.mu.Unlock()
	close(f.done)
}

// exchange exchanges a signed assertion for a token (RFC 7523). Its errors contain neither.
func (t *tokens) exchange() (token, error) {
	a := t.account
	seen := &noting{next: t.client.Transport}
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{
		Transport: seen, Timeout: provider.Timeout, CheckRedirect: t.client.CheckRedirect,
	})
	source := (&jwt.Config{
		Email: a.Email, PrivateKey: []byte(a.key), PrivateKeyID: a.keyID, Scopes: []string{messagingScope}, TokenURL: a.tokenURI,
	}).TokenSource(ctx)
	got, err := source.Token()
	var refused *oauth2.RetrieveError
	var private *urlguard.PrivateError
	switch {
	case errors.As(err, &refused):
		return token{}, t.refusal(refused)
	case errors.As(seen.err, &private):
		return token{}, t.config("token_uri of the service account " + private.Error())
	case seen.err != nil:
		return token{}, t.retry(0, "Google's token service cannot be reached: "+foreign.Cause(seen.err))
	case err != nil || got.AccessToken == "":
		return token{}, t.retry(0, "Google's token service gave an answer without a token")
	}
	now, life := t.now(), usualLife
	if !got.Expiry.IsZero() {
		life = time.Until(got.Expiry)
	}
	return token{text: got.AccessToken, until: now.Add(life), renew: now.Add(life - min(renewEarly, life/2))}, nil
}

// refusal interprets an answer that contains no token.
func (t *tokens) refusal(e *oauth2.RetrieveError) error {
	status := e.Response.StatusCode
	if status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500 {
		return t.retry(provider.RetryAfter(e.Response.Header, t.now()), fmt.Sprintf("Google's token service answered %d", status))
	}
	var said struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	reason := fmt.Sprintf("Google's token service answered %d", status)
	if json.Unmarshal(e.Body, &said) != nil || said.Error == "" { // for example a proxy's page: the key may be valid
		return t.retry(0, reason+" without an error of OAuth: something else may answer in its place")
	}
	reason += ": " + provider.Clip(said.Error+" "+said.Description)
	return t.config(reason + "; the service account's key was deleted, or this server's clock is wrong")
}

func (t *tokens) retry(after time.Duration, reason string) error {
	return &push.RetryError{After: after, Credential: true, Scope: t.account.Project, Reason: reason}
}

func (t *tokens) config(reason string) error {
	return &push.ConfigError{Scope: t.account.Project, Reason: reason}
}

// noting keeps the transport's error: the OAuth2 library returns only its text, which contains the URL.
type noting struct {
	next http.RoundTripper
	err  error
}

func (n *noting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.next.RoundTrip(r)
	n.err = err
	return resp, err
}

// newest returns the text of the newest token.
func (t *tokens) newest() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current.text
}
