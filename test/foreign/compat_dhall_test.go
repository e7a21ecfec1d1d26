package foreign

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
	"godwit.dev/godwit/test/blackbox"
)

// TestTheFormerServicesDhallStartsTheStandIn uses settings in that service's language, with an import, bindings and variables of the
// environment, and has a thousand entries delivered whose entity data is no JSON.
func TestTheFormerServicesDhallStartsTheStandIn(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	r := startAround(t, redistest.Start(t).Addr())
	host, port, _ := strings.Cut(r.seeds[0], ":")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"common.dhall": fmt.Sprintf(`{ host = %q, port = %s }`, host, port),
		"notification_service.dhall": fmt.Sprintf(`let common = ./common.dhall

let redis_cfg = {
    host = common.host,
    port = common.port,
    cluster_enabled = False,
    cluster_urls = [""],
    use_legacy_version = False,
    pool_size = 10,
    partition = 0,
}

let LogLevel = < TRACE | DEBUG | INFO | WARN | ERROR | OFF >

let internal_auth_cfg = {
    auth_url = %q,
    auth_api_key = env:GODWIT_TEST_NO_SUCH_KEY as Text ? %q,
    auth_token_expiry = 86400
}

in {
    grpc_port = 50051,
    http_server_port = 9091,
    internal_auth_cfg = internal_auth_cfg,
    logger_cfg = { level = LogLevel.WARN, log_to_file = False },
    redis_cfg = redis_cfg,
    driver_api_base_url = %q,
    retry_delay_millis = 1000,
    expired_cleanup_delay_millis = 500,
    request_timeout_seconds = 1,
    read_all_connected_client_notifications = True,
    channel_buffer = 100000,
    max_shards = +%d,
}
`, r.auth.URL, authKey, r.driver.URL, shards),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	web := blackbox.Free(t)
	s := blackbox.Start(t, blackbox.Args("--compat", "nammayatri", "--compat-config", filepath.Join(dir, "notification_service.dhall"), "--compat-http-addr", web))
	w := newWorld(t, &world{redis: r, addr: s.GRPC, http: web, server: s})
	client := uuid()
	a := w.online(client)
	for i := range 1000 {
		e := entry(fmt.Sprint("ride-", i))
		e.Entity = "xxxx"
		w.publish(client, e)
	}
	seen := make(map[string]bool)
	for i := range 1000 {
		p := a.next()
		for seen[p.id] { // on a busy machine an acknowledgement takes longer than the second after which an entry comes again
			p = a.next()
		}
		if p.id != fmt.Sprint("ride-", i) {
			t.Fatalf("entry %d is %+v", i, p)
		}
		seen[p.id] = true
		a.ack(p.id)
	}
	w.left(client, 0)
}
