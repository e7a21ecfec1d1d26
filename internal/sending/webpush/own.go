package webpush

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// Own is the push service of this server. Its messages need no network: the service takes the requests of an app's sender as a handler, with the same
// checks as for foreign senders.
type Own struct{ at atomic.Pointer[ownService] }

// ownPath is where the push endpoints of the service begin.
const ownPath = "/wpush/"

type ownService struct {
	origins   []string
	endpoints http.Handler // nil: the service is off
}

// Open says that the service has started, under which origins its push endpoints are, and what serves them.
func (o *Own) Open(origins []string, endpoints http.Handler) {
	o.at.Store(&ownService{slices.Clone(origins), endpoints})
}

// Settle says that the service is off unless it has started.
func (o *Own) Settle() { o.at.CompareAndSwap(nil, &ownService{}) }

// unusable returns the reason why no message can go to the service; empty: there is none, or it is not known yet.
func (o *Own) unusable() string {
	s := o.load()
	switch {
	case o.starting():
		return ""
	case s == nil || s.endpoints == nil:
		return "the push service of this server is off: turn it on with the setting push_service"
	case len(s.origins) == 0:
		return "the push service of this server has no address of its own: set public_url or push_origins"
	}
	return ""
}

func (o *Own) load() *ownService {
	if o == nil {
		return nil
	}
	return o.at.Load()
}

// starting reports whether the service may still open: senders start before it.
func (o *Own) starting() bool { return o != nil && o.at.Load() == nil }

// find parses the URL of a push endpoint; ok is false if it is none of the service's.
func (o *Own) find(endpoint string) (u *url.URL, ok bool) {
	s := o.load()
	if s == nil || s.endpoints == nil {
		return nil, false
	}
	u, err := url.Parse(endpoint)
	if err != nil || !slices.Contains(s.origins, originOf(u)) || u.User != nil || strings.Contains(endpoint, "#") {
		return nil, false
	}
	return u, strings.HasPrefix(u.Path, ownPath) && path.Clean(u.Path) == u.Path
}

// post hands a message to the service.
func (o *Own) post(ctx context.Context, header http.Header, to *url.URL, body []byte, name string) (provider.Answer, error) {
	if ctx.Err() != nil {
		return provider.Answer{}, &push.RetryError{Reason: "not sent to " + name + ": " + provider.Cause(ctx)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "", bytes.NewReader(body))
	if err != nil {
		return provider.Answer{}, &push.PermanentError{Reason: "the request cannot be made"}
	}
	req.URL, req.Host, req.Header = to, to.Host, header
	w := &ownAnswer{Answer: provider.Answer{Header: http.Header{}}}
	o.load().endpoints.ServeHTTP(w, req)
	if w.Status == 0 {
		w.Status = http.StatusOK
	}
	return w.Answer, nil
}

// ownAnswer keeps an answer in memory. The service's answers are short.
type ownAnswer struct{ provider.Answer }

// Header implements http.ResponseWriter.
func (a *ownAnswer) Header() http.Header { return a.Answer.Header }

// WriteHeader implements http.ResponseWriter.
func (a *ownAnswer) WriteHeader(status int) {
	if a.Status == 0 {
		a.Status = status
	}
}

// Write implements http.ResponseWriter.
func (a *ownAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.Body = append(a.Body, b...)
	return len(b), nil
}
