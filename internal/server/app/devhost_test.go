package app_test

import (
	"net/http"
	"testing"

	"godwit.dev/godwit/internal/server/app"
)

func TestADevelopmentServerAnswersToNoNameOfTheWeb(t *testing.T) {
	open := settings(t)
	open.DevAnyAddress = true
	for name, c := range map[string]struct {
		a      *app.App
		anyone bool
	}{"dev": {start(t, settings(t)), false}, "dev-any-address": {start(t, open), true}} {
		for host, local := range map[string]bool{
			"localhost": true, "localhost:8080": true, "LocalHost.": true, "app.localhost:1": true, "127.0.0.1:8080": true, "[::1]:8080": true, "[::1]": true, "192.0.2.7": true,
			"evil.example": false, "evil.example:8080": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "notlocalhost": false, "2130706433": false,
		} {
			for _, path := range []string{"/v1/recipients", "/v1/connect", "/ui/", "/healthz"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.a.Addresses().HTTP+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Host = host
				req.Header.Set("Authorization", "Bearer dev")
				resp, err := http.DefaultTransport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if refused := resp.StatusCode == http.StatusForbidden; refused == (local || c.anyone) {
					t.Errorf("%s: GET %s as %s: status %d", name, path, host, resp.StatusCode)
				}
			}
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestADevelopmentServerAnswersToTheNameOfItsPublicURL(t *testing.T) {
	plain, idn := settings(t), settings(t)
	plain.PublicURL, idn.PublicURL = "https://push.example.org/base", "https://bücher.example:8443/"
	answersTo(t, start(t, plain), map[string]int{"push.example.org": http.StatusOK, "push.example.org:8443": http.StatusOK, "evil.example": http.StatusForbidden})
	answersTo(t, start(t, idn), map[string]int{"xn--bcher-kva.example:8443": http.StatusOK, "xn--bcher-kva.example": http.StatusOK, "bcher.example": http.StatusForbidden})
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// answersTo checks the server's status for requests to hosts.
func answersTo(t *testing.T, a *app.App, want map[string]int) {
	t.Helper()
	for host, status := range want {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addresses().HTTP+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("as %s: status %d, want %d", host, resp.StatusCode, status)
		}
	}
}
