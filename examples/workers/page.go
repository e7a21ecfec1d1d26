package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"

	godwit "godwit.dev/godwit/clients/go"
)

//go:embed page.html
var page []byte

// servePage serves the page as one more worker: an ordinary HTTP handler that does not listen on a port. The page and its calls have the
// gateway's origin; its stream has the server's, which allows the page's origin.
func (s *shop) servePage(ctx context.Context) (stop func(), err error) {
	key, err := s.key(ctx, "shop", []string{"worker", "read"})
	if err != nil {
		return nil, err
	}
	c, err := godwit.New(s.url, godwit.WithAPIKey(key))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; connect-src 'self' "+s.url+"; style-src 'unsafe-inline'; script-src 'unsafe-inline'")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("GET /token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"token": s.token, "server": s.url})
	})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Serve(ctx, "shop-1", []string{"shop.>"}, godwit.HTTP(mux)); ctx.Err() == nil {
			s.say("the page is no longer served: %v", err)
		}
	}()
	return func() {
		cancel()
		<-done
		c.Close()
	}, nil
}
