package webpush_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/internal/sending/webpush"
)

// BenchmarkSend sends to a push service in the same process, over TLS and HTTP/2; its cost is part of the figure.
func BenchmarkSend(b *testing.B) {
	server := pushserver.Start(pushserver.Options{Quick: true})
	defer server.Close()
	client := server.Trust(provider.Client(urlguard.All))
	defer client.CloseIdleConnections()
	s, err := webpush.New(webpush.Config{Key: newKey(b), Targets: urlguard.All, Client: client})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	addresses := make([]json.RawMessage, 1000)
	for i := range addresses {
		_, addresses[i] = server.Subscribe(pushserver.Accepting)
	}
	content := push.Content{Title: "Breaking news", Body: "Something has happened that you wanted to hear of", URL: "https://example.org/news/1"}
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := push.Request{ID: "0b5d9f4e-8a3c-5b6e-9d2f-1c7a6e5d4b3a", App: "shop", Address: addresses[int(n.Add(1))%len(addresses)], Content: content}
			if _, err := s.Send(b.Context(), r); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
}
