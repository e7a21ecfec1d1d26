package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// fetch does a request to an app's own server and reads its answer. Its errors name the host and never the whole
// URL, in which people put secrets.
func fetch(ctx context.Context, client *http.Client, req *http.Request, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, fmt.Errorf("%s did not answer in %s", req.URL.Host, fetchTimeout))
	defer cancel()
	req = req.WithContext(ctx)
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("ask %s: %w", req.URL.Host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s: it answered %d", req.URL.Host, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer of %s: %w", req.URL.Host, err)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("answer of %s is larger than %d bytes", req.URL.Host, limit)
	}
	return body, nil
}
