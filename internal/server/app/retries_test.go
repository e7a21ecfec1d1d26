package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// verdict is the part of an answer that publishers evaluate.
type verdict struct {
	Duplicate bool
	Status    json.RawMessage // of a copy, or of a problem
}

// publishers returns the interfaces for publishing. Another part of the server reads the second POST of a connection.
func publishers(t *testing.T, a *app.App) map[string]func(body string) verdict {
	t.Helper()
	base := "http://" + a.Addresses().HTTP
	conn, err := grpc.NewClient(a.Addresses().GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	read := func(answer string) (v verdict) {
		line, _, _ := strings.Cut(answer, "\n")
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Errorf("%s: %v", answer, err)
		}
		return v
	}
	post := func(path string) func(string) verdict {
		return func(body string) verdict {
			_, answer, _ := ask(t, http.MethodPost, base+path, body)
			return read(answer)
		}
	}
	oneConnection := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	t.Cleanup(oneConnection.CloseIdleConnections)
	return map[string]func(string) verdict{
		"HTTP":  post("/v1/notifications"),
		"batch": post("/v1/notifications/batch"),
		"a connection's second POST": func(body string) (v verdict) {
			for range 2 {
				v = read(again(t, oneConnection, base+"/v1/notifications", body))
			}
			return v
		},
		"gRPC": func(body string) verdict {
			var d struct {
				To, ID, Title, Template string
				ExpiresAt               time.Time                  `json:"expires_at"`
				Escalate                []*godwitpb.EscalationStep `json:"escalate"`
			}
			if err := json.Unmarshal([]byte(body), &d); err != nil {
				t.Fatal(err)
			}
			req := &godwitpb.PublishRequest{To: []string{d.To}, Id: d.ID, Title: d.Title, Template: d.Template, Escalate: d.Escalate}
			if !d.ExpiresAt.IsZero() {
				req.ExpiresAtMs = d.ExpiresAt.UnixMilli()
			}
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer dev")
			r, err := godwitpb.NewPublisherClient(conn).Publish(ctx, req)
			if err != nil {
				return verdict{Status: json.RawMessage(fmt.Sprintf("%q", err))}
			}
			return verdict{r.GetResults()[0].GetDuplicate(), json.RawMessage(fmt.Sprintf("%q", r.GetResults()[0].GetStatus()))}
		},
	}
}

// again posts over a client's open connection.
func again(t *testing.T, client *http.Client, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer dev")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		t.Fatal(err)
	}
	_, answer, _ := strings.Cut(b.String(), "\r\n\r\n")
	return answer
}

// A publisher that missed the answer publishes again, after its notification has expired and its channel and template are gone.
func TestRetryIsADuplicateWhateverChangedSince(t *testing.T) {
	for name, postgres := range map[string]func(*testing.T) string{
		"SQLite": nil, "PostgreSQL": func(t *testing.T) string { t.Helper(); return pgtest.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := settings(t)
			if postgres != nil {
				cfg.Postgres = postgres(t)
			}
			retriesAreDuplicates(t, start(t, cfg))
		})
	}
}

func retriesAreDuplicates(t *testing.T, a *app.App) {
	t.Helper()
	base := "http://" + a.Addresses().HTTP
	must := func(method, path, body string) {
		t.Helper()
		if status, answer, _ := ask(t, method, base+path, body); status >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, status, answer)
		}
	}
	must(http.MethodPut, "/v1/channels/webhook", `{"enabled":true}`)
	must(http.MethodPut, "/v1/templates/hello", `{"content":{"title":"Hello"}}`)
	expires := time.Now().Add(2 * time.Second)
	bodies := map[string]string{
		"expired":  fmt.Sprintf(`{"to":"ann","id":"expired","title":"T","expires_at":%q}`, expires.UTC().Format(time.RFC3339Nano)),
		"channel":  `{"to":"ann","id":"channel","title":"T","escalate":[{"channel":"live"},{"channel":"webhook"}]}`,
		"template": `{"to":"ann","id":"template","template":"hello"}`,
	}
	for _, body := range bodies {
		must(http.MethodPost, "/v1/notifications", body)
	}
	must(http.MethodDelete, "/v1/channels/webhook", "")
	must(http.MethodDelete, "/v1/templates/hello", "")
	until(t, expires)
	for way, publish := range publishers(t, a) {
		for what, body := range bodies {
			if v := publish(body); !v.Duplicate {
				t.Errorf("%s, %s: %+v with status %s, want a duplicate", way, what, v, v.Status)
			}
			if v := publish(strings.Replace(body, `"ann"`, `"bob"`, 1)); v.Duplicate || string(v.Status) == `"stored"` {
				t.Errorf("%s, %s to somebody else: status %s, want it refused", way, what, v.Status)
			}
		}
	}
}

// until waits for a moment.
func until(t *testing.T, at time.Time) {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), at.Add(time.Millisecond))
	defer cancel()
	<-ctx.Done()
}
