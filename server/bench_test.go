package server_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/server"
)

// BenchmarkPublish compares publishing within the process with publishing over HTTP to the same server, with 64 publishers and 200 bytes.
func BenchmarkPublish(b *testing.B) {
	s := start(b, server.Options{Settings: map[string]string{"http_addr": "127.0.0.1:0"}})
	key, err := s.Key(b.Context(), "shop", "bench", "publish")
	if err != nil {
		b.Fatal(err)
	}
	client, err := godwit.New("http://"+s.Addrs()["http_addr"], godwit.WithAPIKey(key))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	var n atomic.Int64
	p := godwit.Publication{Title: "Ride", Data: make([]byte, 200), ContentType: "application/octet-stream"}
	for name, publish := range map[string]func() error{
		"in-process": func() error { _, err := s.Publish(b.Context(), "shop", to(p, n.Add(1))); return err },
		"http":       func() error { _, err := client.Publish(b.Context(), to(p, n.Add(1))); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := publish(); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// to gives a publication one of 1,000 recipients.
func to(p godwit.Publication, n int64) godwit.Publication {
	p.To = "driver-" + strconv.FormatInt(n%1000, 10)
	return p
}
