package foreign

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
	"godwit.dev/godwit/test/blackbox"
)

// TestTheFormerServicesConfigurationIsTaken uses that configuration unchanged: each origin of tokens has its own endpoint, and streams do
// not end although it sets a limit.
func TestTheFormerServicesConfigurationIsTaken(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	r := startAround(t, redistest.Start(t).Addr())
	riders := startAuth(t)
	host, port, _ := strings.Cut(r.seeds[0], ":")
	file := filepath.Join(t.TempDir(), "notification-service.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `grpc_port = 50051
http_server_port = 9091
driver_api_base_url = %q
max_shards = %d
request_timeout_seconds = 1
retry_delay_millis = 1000
expired_cleanup_delay_millis = 500
channel_buffer = 100000
read_all_connected_client_notifications = true

[internal_auth_cfg.DriverApp]
auth_url = %q
auth_api_key = %q
auth_token_expiry = 86400

[internal_auth_cfg.RiderApp]
auth_url = %q
auth_api_key = %q
auth_token_expiry = 1000

[redis_cfg]
host = %q
port = %s
`, r.driver.URL, shards, r.auth.URL, authKey, riders.URL, authKey, host, port), 0o600); err != nil {
		t.Fatal(err)
	}
	web := blackbox.Free(t)
	s := blackbox.Start(t, blackbox.Args("--compat", "nammayatri", "--compat-config", file, "--compat-http-addr", web))
	w := newWorld(t, &world{redis: r, addr: s.GRPC, http: web, server: s})
	driver, rider := uuid(), uuid()
	w.publish(driver, entry("first"))
	d := w.online(driver)
	d.until("first") // its token was checked
	d.cut()
	a := w.online(rider, "token-origin", "RiderApp")
	w.publish(rider, entry("ride"))
	a.until("ride")
	a.ack("ride")
	w.left(rider, 0)
	if r.auth.times(driver) != 1 || r.auth.times(rider) != 0 || riders.times(rider) != 1 {
		t.Errorf("the endpoints were asked %d, %d and %d times", r.auth.times(driver), r.auth.times(rider), riders.times(rider))
	}
	key := "NS:" + tokenOf(rider)
	if ttl, _ := w.do(key, "TTL", key).(int64); ttl <= 0 || ttl > 1000 {
		t.Errorf("a rider's token is kept for %d s", ttl)
	}
	if code := refused(w, w.addr, streamPayload, "token", tokenOf(rider)+"'s other", "token-origin", "RiderDashboard"); code != codes.Internal {
		t.Errorf("a token of an origin without an endpoint: %s", code)
	}
}
