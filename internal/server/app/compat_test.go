package app_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"godwit.dev/godwit/api/nammayatripb"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

// The server replaces nammayatri's notification-service on a real Redis: notifications published there reach its clients,
// acknowledged ones are deleted there, and the server is not ready while Redis is away.
func TestServerStandsInForANotificationService(t *testing.T) {
	redis := redistest.Start(t)
	cfg := settings(t)
	cfg.Compat, cfg.Redis, cfg.CompatDev, cfg.CompatHTTPAddr = config.Nammayatri, redis.URL(), true, "127.0.0.1:0"
	a := start(t, cfg)
	conn, err := grpc.NewClient(a.Addresses().GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	const client = "f8f60000-0000-0000-0000-000000000003" // of shard 3
	publish := func(id string) {
		t.Helper()
		_, err := redis.Do(fmt.Sprintf("XADD N%s{%d} * id %s category RIDE title Ride body b show SHOW entity.id e entity.type t entity.data {} created_at %s ttl %s",
			client, (0xf8f6000000000000+3)%128, id, time.Now().UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
		if err != nil {
			t.Fatal(err)
		}
	}
	publish("ride-1")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "token", client)
	s, err := nammayatripb.NewNotificationClient(conn).StreamPayload(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 3; i++ {
		m, err := s.Recv()
		if err != nil || m.GetId() != fmt.Sprint("ride-", i) || m.GetCategory() != "RIDE" {
			t.Fatalf("got %v, %v, want ride-%d", m, err, i)
		}
		if i == 3 {
			break
		}
		if err := s.Send(&nammayatripb.NotificationAck{Id: m.GetId()}); err != nil {
			t.Fatal(err)
		}
		publish(fmt.Sprint("ride-", i+1))
	}
	if err := redis.Await("XLEN N"+client+"{3}", "1"); err != nil {
		t.Error(err)
	}
	web := "http://" + a.Addresses().CompatHTTP
	if status, body, _ := ask(t, "GET", web+"/health", ""); status != 200 || body != "Notification Service Is Up!" {
		t.Errorf("/health: %d %s", status, body)
	}
	for _, want := range []string{`delivered_notifications{category="RIDE"} 2`, "godwit_build_info", "godwit_sessions 1\n"} {
		says(t, web+"/metrics", want) // an acknowledgement is counted a moment after its entry is gone
	}
	if _, body, _ := ask(t, "GET", "http://"+a.Addresses().HTTP+"/v1/stats", ""); !strings.Contains(body, `"sessions":1,`) {
		t.Errorf("stats do not count its stream: %s", body)
	}
	redis.Kill()
	for url, want := range map[string]int{web + "/health": 200, "http://" + a.Addresses().HTTP + "/readyz": 503} {
		if status, body, _ := ask(t, "GET", url, ""); status != want {
			t.Errorf("%s while Redis is away: %d %s", url, status, body)
		}
	}
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	stop(t, a)
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the stop the stream ends with %v, want OK", err)
	}
}
