package config_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/compat/nammayatri"
	"godwit.dev/godwit/internal/server/config"
)

const theirFile = `
grpc_port = 50052
http_server_port = 9092
driver_api_base_url = "http://driver:8016/ui"
max_shards = 64
request_timeout_seconds = 60
retry_delay_millis = 1500
channel_buffer = 100000
read_all_connected_client_notifications = true

[internal_auth_cfg.DriverApp]
auth_url = "http://driver:8016/internal/auth"
auth_api_key = "key-d"
auth_token_expiry = 3600

[internal_auth_cfg.RiderApp]
auth_url = "http://rider:8013/internal/auth"
auth_api_key = "key-r"

[redis_cfg]
host = "10.0.0.1"
port = 30001
cluster_enabled = true
cluster_urls = ["10.0.0.2:6379", "rediss://10.0.0.3:6379"]
pool_size = 50
`

func TestSettingsOfTheServiceHoldWhereNothingElseIsSet(t *testing.T) {
	c, err := config.Load(flags(t, "--compat", "nammayatri", "--compat-config", writeFile(t, theirFile), "--max-shards", "32", "--auth-url", "http://all/auth"),
		[]string{"GODWIT_AUTH_API_KEY=key-a", "GODWIT_GRPC_ADDR=:7000"})
	if err != nil {
		t.Fatal(err)
	}
	if c.GRPCAddr != ":7000" || c.CompatHTTPAddr != ":9092" || c.DriverAPIURL != "http://driver:8016/ui" || c.MaxShards != 32 ||
		c.CompatRetryDelay.D() != 1500*time.Millisecond || c.CompatStreamTimeout != 0 || c.CompatDev {
		t.Errorf("got %+v", c)
	}
	if got, want := c.RedisURLs(), []string{"redis://10.0.0.2:6379", "rediss://10.0.0.3:6379"}; !slices.Equal(got, want) {
		t.Errorf("redis %q, want %q", got, want)
	}
	day := 24 * time.Hour
	for name, want := range map[string]nammayatri.Origin{
		"DriverApp":       {URL: "http://driver:8016/internal/auth", Key: "key-d", Expiry: time.Hour},
		"RiderApp":        {URL: "http://rider:8013/internal/auth", Key: "key-r", Expiry: day},
		"DriverDashboard": {URL: "http://all/auth", Key: "key-a", Expiry: day},
		"RiderDashboard":  {URL: "http://all/auth", Key: "key-a", Expiry: day},
	} {
		if got := c.Origins()[name]; got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	want := []string{"channel_buffer", "read_all_connected_client_notifications", "redis_cfg.pool_size", "request_timeout_seconds"}
	if got := c.CompatPassedOver(); !slices.Equal(got, want) {
		t.Errorf("passed over %q, want %q", got, want)
	}
}

func TestOlderSettingsOfTheService(t *testing.T) {
	c, err := config.Load(flags(t, "--compat", "nammayatri", "--compat-config", writeFile(t, `
[internal_auth_cfg]
auth_url = "http://driver:8016/internal/auth"
auth_api_key = "key"
[redis_cfg]
host = "10.0.0.1"
port = 30001
cluster_enabled = false
cluster_urls = [""]
`)), []string{"DEV=1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Origins(); len(got) != 4 || got["RiderDashboard"].Key != "key" || c.Redis != "redis://10.0.0.1:30001" || !c.CompatDev {
		t.Errorf("origins %v, redis %s, dev %t", got, c.Redis, c.CompatDev)
	}
}

func TestSettingsOfTheServiceAreReadInDhall(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("common.dhall", `{ host = "10.0.0.1", port = 30001 }`)
	write("notification_service.dhall", `let common = ./common.dhall

let redis_cfg = {
    host = common.host,
    port = common.port,
    cluster_enabled = True,
    cluster_urls = [""],
    partition = 0,
}

let LogLevel = < TRACE | DEBUG | INFO | WARN | ERROR | OFF >

let driver_auth = {
    auth_url = "http://driver:8016/internal/auth",
    auth_api_key = env:GODWIT_TEST_DRIVER_KEY as Text ? "key-d",
    auth_token_expiry = 3600
}

in {
    grpc_port = 50052,
    internal_auth_cfg = { DriverApp = driver_auth, RiderApp = driver_auth // { auth_token_expiry = 60 } },
    logger_cfg = { level = LogLevel.WARN, log_to_file = False },
    redis_cfg = redis_cfg,
    retry_delay_millis = 1500,
    max_shards = +64,
    tags = toMap { a = "b" },
    sentry = None Text,
}
`)
	c, err := config.Load(flags(t, "--compat", "nammayatri"), []string{"DHALL_CONFIG=notification_service.dhall"})
	if err != nil {
		t.Fatal(err)
	}
	if c.GRPCAddr != ":50052" || c.MaxShards != 64 || c.Redis != "redis://10.0.0.1:30001" || c.CompatRetryDelay.D() != 1500*time.Millisecond {
		t.Errorf("grpc %s, shards %d, redis %s, retry %s", c.GRPCAddr, c.MaxShards, c.Redis, c.CompatRetryDelay)
	}
	driver, rider := c.Origins()["DriverApp"], c.Origins()["RiderApp"]
	if driver != (nammayatri.Origin{URL: "http://driver:8016/internal/auth", Key: "key-d", Expiry: time.Hour}) || rider.Expiry != time.Minute || rider.Key != "key-d" {
		t.Errorf("driver %+v, rider %+v", driver, rider)
	}
	want := []string{"logger_cfg.level", "logger_cfg.log_to_file", "redis_cfg.partition", "tags.a"}
	if got := c.CompatPassedOver(); !slices.Equal(got, want) {
		t.Errorf("passed over %q, want %q", got, want)
	}

	write("as.json", `{"redis_cfg":{"host":"10.0.0.1","port":30001},"max_shards":32,"internal_auth_cfg":{"auth_url":"http://driver:8016/internal/auth"}}`)
	if c, err = config.Load(flags(t, "--compat", "nammayatri", "--compat-config", "as.json"), nil); err != nil || c.MaxShards != 32 || c.Redis != "redis://10.0.0.1:30001" {
		t.Errorf("as JSON: %+v, %v", c, err)
	}

	for text, want := range map[string]string{
		`{ grpc_port = }`:                "parse Dhall",
		`{ grpc_port = 1 + True }`:       "check types of Dhall",
		`./nowhere.dhall`:                "resolve imports of Dhall",
		`[ 1 ]`:                          "no record of settings",
		`{ f = \(x : Natural) -> x }`:    "no setting",
		`{ url = env:GODWIT_NOT_THERE }`: "resolve imports of Dhall",
	} {
		write("bad.dhall", text)
		if _, err := config.Load(flags(t, "--compat", "nammayatri", "--compat-config", "bad.dhall"), nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "bad.dhall") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestLimitsThatTheServiceHasNotAreOffUnlessSet(t *testing.T) {
	args := []string{"--compat", "nammayatri", "--redis", "redis://a:1", "--auth-url", "http://a/auth"}
	c, err := config.Load(flags(t, args...), nil)
	if err != nil || c.LimitConnects != (config.Rate{}) {
		t.Errorf("%v, %v", c, err)
	}
	c, err = config.Load(flags(t, append(args, "--limit-connects", "50/s")...), nil)
	if err != nil || c.LimitConnects.Count != 50 {
		t.Errorf("%v, %v", c, err)
	}
}

func TestOtherShardsAreServedOnlyByForce(t *testing.T) {
	args := []string{"--compat", "nammayatri", "--redis", "redis://a:1", "--auth-url", "http://a/auth", "--max-shards", "5", "--force"}
	if c, err := config.Load(flags(t, args...), nil); err != nil || c.PowerOfTwo() {
		t.Errorf("%v, %v", c, err)
	}
}

func TestMistakesInSettingsOfCompat(t *testing.T) {
	base := []string{"--compat", "nammayatri", "--redis", "redis://a:1", "--auth-url", "http://a/auth"}
	for _, c := range []struct{ args, want string }{
		{"--compat other", "compat"},
		{"--redis ", "redis = \"\""},
		{"--redis a:6379", "is not an address of Redis"},
		{"--redis redis://a:1,http://b:1", "is not an address of Redis"},
		{"--max-shards 5", "is not a power of two"},
		{"--auth-url ", "auth_url"},
		{"--auth-url a/auth", "(for DriverApp) is not a URL"},
		{"--driver-api-url a", "driver_api_url"},
		{"--grpc-addr off", "grpc_addr"},
		{"--compat-http-addr 9091", "compat_http_addr"},
		{"--compat off", "has no meaning without compat"},
		{"--compat-config /no/such/file", "/no/such/file"},
		{"--compat-config " + writeFile(t, "max_shards = [1]"), "max_shards"},
		{"--compat-config " + writeFile(t, "internal_auth_cfg = 1"), "internal_auth_cfg"},
		{"--compat-config " + writeFile(t, "[internal_auth_cfg.Nobody]\nauth_url = 'http://a'"), "internal_auth_cfg.Nobody"},
		{"--compat-config " + writeFile(t, "[internal_auth_cfg.RiderApp]\nauth_token_expiry = 'soon'"), "auth_token_expiry"},
	} {
		name, value, _ := strings.Cut(c.args, " ")
		args := base
		if strings.Contains(c.args, "max_shards") || name == "--compat-config" {
			args = base[:4]
			args = append(slices.Clone(args), "--auth-url", "http://a/auth")
		}
		_, err := config.Load(flags(t, append(slices.Clone(args), name, value)...), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something with %s", c.args, err, c.want)
		}
	}
}

func TestSecretsOfCompatAreNotShown(t *testing.T) {
	c, err := config.Load(flags(t, "--compat", "nammayatri", "--max-shards", "128"), []string{
		"GODWIT_REDIS=redis://u:hunter2@a:1,rediss://:hunter2@b:1", "GODWIT_AUTH_API_KEY=http://hunter2", "GODWIT_AUTH_URL=http://a/auth",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range config.Fields(c) {
		if strings.Contains(f.Value(), "hunter2") {
			t.Errorf("%s shows %s", f.Key, f.Value())
		}
		if f.Key == "redis" && f.Value() != "redis://u:xxxxx@a:1,rediss://:xxxxx@b:1" {
			t.Errorf("redis is shown as %s", f.Value())
		}
	}
	_, err = config.Load(flags(t, "--compat", "nammayatri"), []string{"GODWIT_REDIS=x://:hunter2@a:1", "GODWIT_AUTH_URL=x://u:hunter2@a"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error is %v", err)
	}
	_, err = config.Load(flags(t), []string{"GODWIT_AUTH_API_KEY=hunter2"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error is %v", err)
	}
}
