//go:build unix

package fcm_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/fcm"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// cpu returns the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSend sends to an FCM server in another process, over TLS and HTTP/2. It measures how many messages the sender sends per second
// of processor time.
func BenchmarkSend(b *testing.B) {
	to := startSink(b)
	account, err := fcm.ParseAccount(to.Account, urlguard.All)
	if err != nil {
		b.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(to.Cert)
	client := provider.Client(urlguard.All)
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	s, err := fcm.New(fcm.Config{Account: account, BaseURL: to.URL, Targets: urlguard.All, Client: client})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	content := push.Content{
		Title: "New ride request", Body: "2.1 km away, 120 rupees", Data: json.RawMessage(`{"ride":"9f3","fare":120,"from":[12.97,77.59]}`),
		FCM: push.FCMContent{ChannelID: "rides", Sound: "default"},
	}
	expires := time.Now().Add(time.Hour)
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(128)
	b.ResetTimer()
	used := cpu()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := push.Request{
				ID: "0b5d9f4e-8a3c-5b6e-9d2f-1c7a6e5d4b3a", App: "shop", Address: to.Addresses[int(n.Add(1))%len(to.Addresses)],
				Content: content, Urgency: push.UrgencyHigh, ExpiresAt: expires,
			}
			if _, err := s.Send(b.Context(), r); err != nil {
				b.Error(err)
			}
		}
	})
	used = cpu() - used
	b.ReportMetric(float64(b.N)/used.Seconds(), "sends/cpu-s")
}
