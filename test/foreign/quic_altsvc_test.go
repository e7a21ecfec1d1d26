package foreign

import (
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
)

// Publishes of a connection without TLS leave net/http after the first. Over TLS none do, and each answer says where HTTP/3 is.
func TestEveryAnswerOverHTTPSNamesHTTP3(t *testing.T) {
	s := startQUIC(t)
	_, port, _ := strings.Cut(s.quic, ":")
	want := `h3=":` + port + `"; ma=86400`
	reused := 0
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if i.Reused {
			reused++
		}
	}}
	for i, body := range []string{`{"to":"a","body":"x"}`, `{"to":"a","body":"y"}`, `{"to":"a","body":"z"}`, `{"to":"a"}`, `nonsense`} {
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, "https://"+s.HTTP+"/v1/notifications", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer dev")
		resp, err := s.api.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := resp.Header.Get("Alt-Svc"); got != want {
			t.Errorf("answer %d (%s) names HTTP/3 by %q, want %q", i, resp.Status, got, want)
		}
	}
	if reused == 0 {
		t.Error("no connection was used again")
	}
}
