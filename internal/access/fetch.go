package access

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/engine/fair"
	"godwit.dev/godwit/internal/sending/foreign"
)

// maxAsked is the maximum number of simultaneous requests to apps' own servers; one app may use at most half of what the others leave. The
// HTTP client has no limit of its own: its queue would be first in, first out for all apps that share a host.
const maxAsked = 256

// fetcher asks apps' own servers.
type fetcher struct {
	http    *http.Client
	targets urlguard.Targets
	asked   *fair.Shares
}

func newFetcher(client *http.Client, targets urlguard.Targets) *fetcher {
	return &fetcher{http: client, targets: targets, asked: fair.NewShares(maxAsked)}
}

// fetch sends a request to an app's own server and reads the answer. Its errors name only the host, because people put secrets in URLs.
func (f *fetcher) fetch(ctx context.Context, app string, req *http.Request, limit int64) ([]byte, error) {
	if err := f.targets.CheckURL(req.URL.String()); err != nil { // the operator may have taken it from the targets
		return nil, fmt.Errorf("ask %s: the URL %w", req.URL.Host, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, fmt.Errorf("%s did not answer in %s", req.URL.Host, fetchTimeout))
	defer cancel()
	if err := f.asked.Take(ctx, app, 1); err != nil {
		return nil, err // says itself what took too long
	}
	defer f.asked.Give(app, 1)
	req = req.WithContext(ctx)
	req.Header.Set("Accept", "application/json")
	resp, err := f.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("ask %s: %w", req.URL.Host, context.Cause(ctx))
		}
		return nil, fmt.Errorf("ask %s: %s", req.URL.Host, foreign.Cause(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s: it answered %d", req.URL.Host, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer of %s: %s", req.URL.Host, foreign.Cause(err))
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("answer of %s is larger than %d bytes", req.URL.Host, limit)
	}
	return body, nil
}
