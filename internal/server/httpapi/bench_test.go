package httpapi

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/server/metrics"
	"godwit.dev/godwit/internal/server/watch"
)

var benchBodies = map[string][]byte{
	"200B": []byte(`{"to":"driver-42","id":"ride-9f3","title":"New ride","body":"2.1 km away","category":"NEW_RIDE","data":{"fare":120,"pickup":{"lat":12.97,"lon":77.59}},"ttl":"30s","collapse_key":"ride","priority":"high"}`),
	"4KB":  []byte(`{"to":"driver-42","title":"New ride","data":{"route":[` + strings.TrimSuffix(strings.Repeat(`{"lat":12.9716,"lon":77.5946,"name":"stop"},`, 92), ",") + `]}}`),
}

// instant publishes nothing at once.
type instant struct{}

func (instant) Publish(_ context.Context, _ string, drafts []*notification.Draft) []delivery.Result {
	return []delivery.Result{{ID: drafts[0].ID, Copies: []delivery.Copy{{To: drafts[0].To[0], Status: notification.Stored, ExpiresAt: time.Unix(1700000000, 0)}}}}
}

type anyone struct{ access.Access }

func (anyone) Key(context.Context, string) (access.Principal, error) {
	return access.Principal{App: "shop", Key: "k", Roles: access.Publish}, nil
}

// discard is a ResponseWriter that discards the answer.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkPublish measures the handler alone: no network, no store.
func BenchmarkPublish(b *testing.B) {
	log := slog.New(slog.DiscardHandler)
	posts := backend.New(backend.Parts{Publisher: instant{}, Log: log})
	h := New(Config{Routes: posts.Routes(), Access: anyone{}, Log: log, Registry: metrics.New("bench"), Watch: watch.Alone(watch.New(), "")})
	for name, body := range benchBodies {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodPost, "/v1/notifications", http.NoBody)
			r.Header.Set("Authorization", "Bearer key")
			r.ContentLength = int64(len(body))
			in := bytes.NewReader(body)
			r.Body = io.NopCloser(in)
			w := discard{h: http.Header{}}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				in.Reset(body)
				clear(w.h)
				h.ServeHTTP(w, r)
			}
		})
	}
}
