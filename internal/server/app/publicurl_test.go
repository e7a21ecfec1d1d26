package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A proxy in front may write its own name for the server into Host, here the listener's address.
func TestPagesOfThePublicURLAreServedWhateverTheHost(t *testing.T) {
	cfg := settings(t)
	cfg.PublicURL = "https://push.example.org/base"
	at := "http://" + start(t, cfg).Addresses().HTTP
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	key := url.Values{"key": {"dev"}}.Encode()
	for origin, own := range map[string]bool{"https://push.example.org": true, "https://evil.example": false, "https://push.example.org:8443": false} {
		for _, c := range []struct{ method, path, body string }{
			{http.MethodGet, "/v1/connect?app=demo", ""},
			{http.MethodGet, "/v1/stream?app=demo&recipient=driver-1", ""},
			{http.MethodGet, "/v1/poll?app=demo&recipient=driver-1&wait=0", ""},
			{http.MethodPost, "/ui/sign-in", key},
		} {
			req, err := http.NewRequestWithContext(t.Context(), c.method, at+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Origin", origin)
			if c.body != "" {
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			if c.path == "/v1/connect?app=demo" {
				for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} {
					req.Header.Set(name, value)
				}
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if refused := resp.StatusCode == http.StatusForbidden; refused == own || own && resp.StatusCode >= http.StatusBadRequest {
				t.Errorf("%s %s from a page of %s is answered %d", c.method, c.path, origin, resp.StatusCode)
			}
		}
	}
}
