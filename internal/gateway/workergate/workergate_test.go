package workergate_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/workergate"
)

func TestCallersRights(t *testing.T) {
	s := gatetest.Start(t, func(s *gatetest.Server) {
		s.Mux.Handle(workergate.Prefix, workergate.New(workergate.Config{Asker: s.Asks, Access: s.Access, Log: s.Log}))
	})
	token := s.Token(t, "driver-1", time.Minute)
	reader, key, err := s.Access.CreateKey(t.Context(), gatetest.App, "reads", access.Read)
	if err != nil || reader.ID == "" {
		t.Fatal(err)
	}
	const nobody = http.StatusServiceUnavailable // the call passed the gateway's checks, and no worker serves the subject
	for _, c := range []struct {
		access, path, credential string
		body, header             int
		want                     int
	}{
		{"", "orders/x", "", 0, 0, 401},
		{"", "orders/x", "wrong", 0, 0, 401},
		{"", "orders/x", access.DevKey, 0, 0, nobody},
		{"", "orders/x", key, 0, 0, 403},
		{"", "orders/x", token, 0, 0, 403},
		{"", "", access.DevKey, 0, 0, 400},
		{"", "a%20b/x", access.DevKey, 0, 0, 400},
		{"", "orders/x", access.DevKey, 1 << 20, 0, nobody},
		{"", "orders/x", access.DevKey, 1<<20 + 1, 0, 413},
		{"", "orders/x", access.DevKey, 0, 17 << 10, 431},
		{access.ByClient, "orders/x", "", 0, 0, 401},
		{access.ByClient, "orders/x", token, 0, 0, nobody},
		{access.ByClient, "orders/x", access.DevKey, 0, 0, nobody},
		{access.ByAnyone, "orders/x", "", 0, 0, nobody},
		{access.ByAnyone, "orders/x", "wrong", 0, 0, 401},
	} {
		if c.access != "" {
			if _, err := s.Access.SetService(t.Context(), gatetest.App, "orders", access.Service{Access: c.access}, setting.Match{}); err != nil {
				t.Fatal(err)
			}
		}
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.URL+"/gw/"+c.path, strings.NewReader(strings.Repeat("x", c.body)))
		if err != nil {
			t.Fatal(err)
		}
		if c.credential != "" {
			req.Header.Set("Authorization", "Bearer "+c.credential)
		}
		if c.header > 0 {
			req.Header.Set("X-Long", strings.Repeat("x", c.header))
		}
		resp, err := s.HTTP.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("access %q, %s with %.10q, %d bytes and %d in a header: %d, want %d", c.access, c.path, c.credential, c.body, c.header, resp.StatusCode, c.want)
		}
	}
}
