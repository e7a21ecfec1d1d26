package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"godwit.dev/godwit/internal/server/config"
)

func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "godwit.toml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	file := writeFile(t, "http_addr = '127.0.0.1:1'\ngrpc_addr = '127.0.0.1:1'\nretain = '1h'\nmax_pending = 7\nlimit_loopback = true\n")
	env := []string{"GODWIT_HTTP_ADDR=127.0.0.1:2", "GODWIT_GRPC_ADDR=127.0.0.1:2", "HOME=/nowhere"}
	c, err := config.Load(flags(t, "--config", file, "--http-addr", "127.0.0.1:3"), env)
	if err != nil {
		t.Fatal(err)
	}
	if c.HTTPAddr != "127.0.0.1:3" || c.GRPCAddr != "127.0.0.1:2" || c.Retain.D() != time.Hour || c.MaxPending != 7 || !c.LimitLoopback {
		t.Errorf("http %s, grpc %s, retain %s, max_pending %d, limit_loopback %t", c.HTTPAddr, c.GRPCAddr, c.Retain, c.MaxPending, c.LimitLoopback)
	}
	if c.MinFree != 256<<20 {
		t.Errorf("min_free %s, want its default", c.MinFree)
	}
	for key, want := range map[string]string{"http_addr": "--http-addr", "grpc_addr": "GODWIT_GRPC_ADDR", "retain": file, "min_free": "default"} {
		if got := c.Origin(key); got != want {
			t.Errorf("origin of %s is %s, want %s", key, got, want)
		}
	}
}

func TestFileNamedByEnvironment(t *testing.T) {
	c, err := config.Load(nil, []string{"GODWIT_CONFIG=" + writeFile(t, "data = '/srv/godwit'")})
	if err != nil || c.Data != "/srv/godwit" {
		t.Fatalf("data %v, %v", c, err)
	}
	if _, err := config.Load(nil, []string{"GODWIT_CONFIG=/no/such/file.toml"}); err == nil || !strings.Contains(err.Error(), "/no/such/file.toml") {
		t.Errorf("a missing file that was named gives %v", err)
	}
}

func TestTargetsMayBeAnArrayOfTheFile(t *testing.T) {
	for _, c := range []struct {
		file string
		args []string
		env  []string
	}{
		{file: `allow_targets = ["10.0.0.0/8", "hooks.internal:8443"]`},
		{file: `allow_targets = "10.0.0.0/8, hooks.internal:8443"`},
		{env: []string{"GODWIT_ALLOW_TARGETS=10.0.0.0/8,hooks.internal:8443"}},
		{args: []string{"--allow-targets", "10.0.0.0/8,hooks.internal:8443"}},
	} {
		c.env = append(c.env, "GODWIT_CONFIG="+writeFile(t, c.file))
		got, err := config.Load(flags(t, c.args...), c.env)
		if err != nil || got.AllowTargets != "10.0.0.0/8,hooks.internal:8443" {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		for url, ok := range map[string]bool{"http://10.0.0.5/": true, "http://hooks.internal:8443/": true, "https://127.0.0.1/": false} {
			if err := got.Targets().CheckURL(url); (err == nil) != ok {
				t.Errorf("%+v: %s: %v", c, url, err)
			}
		}
	}
}

// A development server that others can reach lets everybody in, so nobody gets through it to this machine.
func TestDevelopmentServersReachThisMachine(t *testing.T) {
	for _, c := range []struct {
		args []string
		ok   bool
	}{{nil, false}, {[]string{"--dev"}, true}, {[]string{"--dev", "--dev-any-address"}, false}, {[]string{"--allow-private-urls"}, true}} {
		got, err := config.Load(flags(t, c.args...), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{"http://127.0.0.1:9900/h", "http://localhost:9900/h", "http://[::1]:9900/h"} {
			if err := got.Targets().CheckURL(url); (err == nil) != c.ok {
				t.Errorf("%v: %s: %v", c.args, url, err)
			}
		}
		if err := got.Targets().CheckURL("https://10.0.0.5/"); (err == nil) != got.AllowPrivateURLs {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}

func TestBadSettingNamesKeyValueAndOrigin(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		env  []string
		want []string
	}{
		{"duration", []string{"--retain", "soon"}, nil, []string{"retain", `"soon"`, "duration", "--retain"}},
		{"size", nil, []string{"GODWIT_MIN_FREE=lots"}, []string{"min_free", `"lots"`, "size", "GODWIT_MIN_FREE"}},
		{"rate", []string{"--limit-connects", "5"}, nil, []string{"limit_connects", `"5"`, "rate"}},
		{"number", []string{"--max-pending", "many"}, nil, []string{"max_pending", `"many"`, "whole number"}},
		{"yes or no", nil, []string{"GODWIT_DEV=perhaps"}, []string{"dev", `"perhaps"`, "true nor false"}},
		{"bounds", []string{"--window", "2000"}, nil, []string{"window", `"2000"`, "between 1 and 1024"}},
		{"choice", []string{"--grpc-engine", "magic"}, nil, []string{"grpc_engine", `"magic"`, "reactor, std"}},
		{"quic without a certificate", []string{"--quic-addr", ":8443"}, nil, []string{"quic_addr", "needs tls_cert"}},
		{"mqtt listener", []string{"--mqtt-addr", "1883"}, nil, []string{"mqtt_addr", `"1883"`, "127.0.0.1:8080"}},
		{"nats listener", []string{"--nats-addr", "4222"}, nil, []string{"nats_addr", `"4222"`, "127.0.0.1:8080"}},
		{"open nats listener", []string{"--dev", "--nats-addr", "0.0.0.0:4222"}, nil, []string{"nats_addr", "--dev-any-address"}},
		{"nats twice", []string{"--nats", "nats://10.0.0.1:4222", "--nats-addr", ":4222"}, nil, []string{"nats_addr", "beside nats"}},
		{"nats credentials alone", []string{"--nats-credentials", "x.creds"}, nil, []string{"nats_credentials", "without nats"}},
		{"nats URL", []string{"--nats", "http://10.0.0.1"}, nil, []string{"nats", "nats://10.0.0.1:4222"}},
		{"nats password", []string{"--nats", "nats://u:hunter2@10.0.0.1"}, nil, []string{"nats", "nats_credentials"}},
		{"cluster without a shared store", []string{"--cluster-addr", "127.0.0.1:6222", "--cluster-secret-file", "s"}, nil, []string{"cluster_addr", "needs postgres"}},
		{"cluster without secret", []string{"--cluster-addr", "127.0.0.1:6222"}, []string{"GODWIT_POSTGRES=postgres://db/godwit"}, []string{"cluster_addr", "needs cluster_secret_file", "openssl"}},
		{"cluster beside an external NATS", []string{"--cluster-addr", "127.0.0.1:6222", "--nats", "nats://10.0.0.1"}, []string{"GODWIT_POSTGRES=postgres://db/godwit"}, []string{"cluster_addr", "beside nats"}},
		{"secret of nodes that NATS joins", []string{"--nats", "nats://10.0.0.1", "--cluster-secret-file", "s"}, []string{"GODWIT_POSTGRES=postgres://db/godwit"}, []string{"cluster_secret_file", "without cluster_addr"}},
		{"cluster address", []string{"--cluster-addr", "6222"}, nil, []string{"cluster_addr", `"6222"`}},
		{"peers alone", []string{"--cluster-peers", "10.0.0.2:6222"}, nil, []string{"cluster_peers", "without cluster_addr"}},
		{"peer", []string{"--cluster-addr", "127.0.0.1:6222", "--cluster-peers", "10.0.0.2:6222, 10.0.0.3"}, nil, []string{"cluster_peers", `"10.0.0.3"`, "10.0.0.2:6222"}},
		{"half of TLS", []string{"--cluster-addr", "127.0.0.1:6222", "--cluster-tls-cert", "c.pem"}, nil, []string{"cluster_tls_cert", "cluster_tls_ca"}},
		{"public URL with an empty fragment", []string{"--public-url", "https://g.example/#"}, nil, []string{"public_url", "fragment"}},
		{"public URL with a query", []string{"--public-url", "https://g.example/?a"}, nil, []string{"public_url", "query"}},
		{"public URL that is a host", []string{"--public-url", "g.example"}, nil, []string{"public_url", "https://push.example.org"}},
		{"collector with a fragment", []string{"--otlp", "http://localhost:4318/#"}, nil, []string{"otlp", "fragment"}},
		{"collector with a password", []string{"--otlp", "http://u:hunter2@localhost:4318"}, nil, []string{"otlp", "http://localhost:4318"}},
		{"node", []string{"--node", "a b"}, nil, []string{"node", `"a b"`}},
		{"postgres URL", []string{"--postgres", "db.example.org"}, nil, []string{"postgres", "postgres://godwit@"}},
		{"address", []string{"--http-addr", "8080"}, nil, []string{"http_addr", `"8080"`, "127.0.0.1:8080"}},
		{"port", []string{"--http-addr", ":99999"}, nil, []string{"http_addr", "port"}},
		{"key without certificate", []string{"--tls-key", "k.pem"}, nil, []string{"tls_cert"}},
		{"client CA without TLS", []string{"--tls-client-ca", "ca.pem"}, nil, []string{"tls_client_ca"}},
		{"open development server", []string{"--dev", "--http-addr", "0.0.0.0:8080"}, nil, []string{"http_addr", "0.0.0.0:8080", "--dev-any-address"}},
		{"ballast", []string{"--min-free", "1MB", "--ballast", "2MB"}, nil, []string{"ballast", "min_free"}},
		{"nothing listens", []string{"--http-addr", "off", "--grpc-addr", "off"}, nil, []string{"http_addr", "off"}},
		{"gateway URL", []string{"--gateway-url", "gw.example.org"}, nil, []string{"gateway_url", "https://gw.example.org"}},
		{"gateway URL with a path", []string{"--gateway-url", "https://gw.example.org/gw/"}, nil, []string{"gateway_url", "alone"}},
		{"gateway on the host of the page in other letters", []string{"--gateway-url", "https://xn--bcher-kva.example:8443", "--public-url", "https://Bücher.example."}, nil, []string{"gateway_url", "another host"}},
		{"gateway on the host of the page", []string{"--gateway-url", "https://g.example:8443", "--public-url", "https://G.example"}, nil, []string{"gateway_url", "another host"}},
		{"open gateway listener", []string{"--dev", "--gateway-addr", "0.0.0.0:8081"}, nil, []string{"gateway_addr", "--dev-any-address"}},
		{"provider without a client", []string{"--oidc-issuer", "https://a.example", "--oidc-allow", "view shop groups=a", "--public-url", "https://g.example"}, nil, []string{"oidc_client_id", "is missing"}},
		{"provider without rules", []string{"--oidc-issuer", "https://a.example", "--oidc-client-id", "g", "--public-url", "https://g.example"}, nil, []string{"oidc_allow", "nobody"}},
		{"provider that lets everybody in", []string{"--oidc-issuer", "https://a.example", "--oidc-client-id", "g", "--public-url", "https://g.example", "--oidc-allow", "admin shop groups=*"}, nil, []string{"oidc_allow", "everybody"}},
		{"provider without a way back", []string{"--oidc-issuer", "https://a.example", "--oidc-client-id", "g", "--oidc-allow", "view shop groups=a"}, nil, []string{"public_url", "back"}},
		{"provider in the open", []string{"--oidc-issuer", "http://a.example", "--oidc-client-id", "g", "--public-url", "https://g.example", "--oidc-allow", "view shop groups=a"}, nil, []string{"oidc_issuer", "https"}},
		{"provider asked for something else", []string{"--oidc-issuer", "https://a.example", "--oidc-client-id", "g", "--public-url", "https://g.example", "--oidc-allow", "view shop groups=a", "--oidc-scopes", "email"}, nil, []string{"oidc_scopes", "openid"}},
		{"rules without a provider", []string{"--oidc-allow", "view shop groups=a"}, nil, []string{"oidc_allow", "without oidc_issuer"}},
		{"secret without a provider", nil, []string{"GODWIT_OIDC_CLIENT_SECRET=s"}, []string{"oidc_client_secret", "without oidc_issuer"}},
		{"target that is a URL", []string{"--allow-targets", "10.0.0.0/8,http://hooks.internal"}, nil, []string{"allow_targets", `"10.0.0.0/8,http://hooks.internal"`, `"http://hooks.internal"`, "is a URL", "--allow-targets"}},
		{"target with bits behind its length", nil, []string{"GODWIT_ALLOW_TARGETS=10.0.0.5/8"}, []string{"allow_targets", "10.0.0.0/8", "GODWIT_ALLOW_TARGETS"}},
		{"two at once", []string{"--window", "0", "--retain", "x"}, nil, []string{"window", "retain"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(flags(t, tt.args...), tt.env)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not mention %s", err, w)
				}
			}
		})
	}
}

func TestNodesAreJoinedByAListenerOrANATS(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{nil, false},
		{[]string{"--nats", "nats://10.0.0.1"}, false},
		{[]string{"--postgres", "postgres://db/godwit"}, false},
		{[]string{"--postgres", "postgres://db/godwit", "--nats", "nats://10.0.0.1"}, true},
		{[]string{"--postgres", "postgres://db/godwit", "--cluster-addr", "127.0.0.1:6222", "--cluster-secret-file", "s"}, true},
	} {
		got, err := config.Load(flags(t, c.args...), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Several() != c.want {
			t.Errorf("%v: one of several nodes %v, want %v", c.args, got.Several(), c.want)
		}
	}
}

func TestUnknownKeyInFileIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"htp_addr = ':1'":          "htp_addr",
		"http-addr = ':1'":         "write http_addr",
		"[htp]\naddr = ':1'":       "[htp] is a table",
		"http_addr = \n":           "godwit.toml",
		"http_addr = ':1'\nbad = ": "godwit.toml",
	} {
		_, err := config.Load(flags(t, "--config", writeFile(t, text)), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want mention of %s", text, err, want)
		}
	}
}

func TestSettingsOfAPartMayStandInATable(t *testing.T) {
	for _, text := range []string{"[objects]\nclient_retention = '30d'", "objects.client_retention = '30d'", "objects_client_retention = '30d'"} {
		c, err := config.Load(flags(t, "--config", writeFile(t, text)), nil)
		if err != nil || c.ObjectsClientRetention.D() != 30*24*time.Hour || c.Origin("objects_client_retention") == "default" {
			t.Errorf("%q gives %v, %v", text, c, err)
		}
	}
}

func TestUnknownEnvironmentIsListedNotRefused(t *testing.T) {
	env := []string{"GODWIT_PORT=tcp://10.0.0.1:80", "GODWIT_URL=http://x", "GODWIT_DATA=/tmp/x", "PATH=/bin"}
	if _, err := config.Load(nil, env); err != nil {
		t.Fatal(err)
	}
	if got := config.UnknownEnv(env); len(got) != 1 || got[0] != "GODWIT_PORT" {
		t.Errorf("unknown %v", got)
	}
}

func TestDevelopmentServerBindsLoopback(t *testing.T) {
	for _, tt := range []struct {
		args []string
		addr string
		want string
	}{
		{[]string{"--dev"}, ":8080", "127.0.0.1:8080"},
		{[]string{"--dev"}, "[::1]:0", "[::1]:0"},
		{[]string{"--dev", "--dev-any-address"}, ":8080", ":8080"},
		{nil, ":8080", ":8080"},
		{nil, "off", ""},
	} {
		c, err := config.Load(flags(t, append(tt.args, "--http-addr", tt.addr)...), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ListenAddr(c.HTTPAddr); got != tt.want {
			t.Errorf("%v %s binds %q, want %q", tt.args, tt.addr, got, tt.want)
		}
	}
}

func TestSizesDurationsAndRatesRoundTrip(t *testing.T) {
	for text, want := range map[string]config.Size{"0": 0, "1": 1, "16MB": 16 << 20, "16 mb": 16 << 20, "1.5KB": 1536, "256KiB": 256 << 10, "2G": 0} {
		got, err := config.ParseSize(text)
		if text == "2G" {
			if err == nil {
				t.Error("2G accepted without its B")
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
		if back, err := config.ParseSize(got.String()); err != nil || back != got {
			t.Errorf("%s written as %s reads %d, %v", text, got, back, err)
		}
	}
	for text, want := range map[string]string{"7d": "7d", "168h": "7d", "90": "1m30s", "60s": "1m", "1h": "1h", "0": "0s"} {
		got, err := config.ParseDuration(text)
		if err != nil || got.String() != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"25/s", "100/m", "0.5/h", "off"} {
		got, err := config.ParseRate(text)
		if err != nil || got.String() != text {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	if r, _ := config.ParseRate("120/m"); r.PerSecond() != 2 {
		t.Errorf("120/m is %v a second", r.PerSecond())
	}
}

func TestEveryDefaultIsValidAndDescribed(t *testing.T) {
	c := config.Default()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	page := config.Reference()
	for _, f := range config.Fields(c) {
		if f.Help == "" || f.Group == "" {
			t.Errorf("%s has no help or no group", f.Key)
		}
		if !strings.Contains(page, "`"+f.Key+"`") {
			t.Errorf("%s is not on the reference page", f.Key)
		}
		if f.Value() != f.Default {
			t.Errorf("default of %s is written %q but reads back %q", f.Key, f.Default, f.Value())
		}
	}
}

func TestPasswordOfTheDatabaseIsNeitherTakenFromAFlagNorShown(t *testing.T) {
	const secret = "hunter2"
	for _, url := range []string{"postgres://godwit:hunter2@db/godwit", "postgres://godwit@db/godwit?password=hunter2&sslmode=require"} {
		_, err := config.Load(flags(t, "--postgres", url), nil)
		if err == nil || !strings.Contains(err.Error(), "GODWIT_POSTGRES") || strings.Contains(err.Error(), secret) {
			t.Errorf("on the command line: %v", err)
		}
		c, err := config.Load(flags(t), []string{"GODWIT_POSTGRES=" + url})
		if err != nil || c.Postgres != url {
			t.Fatalf("from the environment: %v", err)
		}
		for _, f := range config.Fields(c) {
			if strings.Contains(f.Value(), secret) || f.Key == "postgres" && !strings.Contains(f.Value(), "db/godwit") {
				t.Errorf("%s is shown as %s", f.Key, f.Value())
			}
		}
	}
	for _, bad := range []string{"hunter2", "mysql://u:hunter2@db", "postgres://u:hunter2@d%zz"} {
		if _, err := config.Load(flags(t), []string{"GODWIT_POSTGRES=" + bad}); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := config.Load(flags(t, "--postgres", "postgres://godwit@db/godwit"), nil); err != nil {
		t.Errorf("without a password: %v", err)
	}
}
