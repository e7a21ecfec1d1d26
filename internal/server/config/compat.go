package config

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/compat/nammayatri"
)

// Nammayatri is the value of compat for the service that Godwit can replace.
const Nammayatri = "nammayatri"

// defaultTokenExpiry is the time for which a token's client is cached, if compat_config does not set it.
const defaultTokenExpiry = 24 * time.Hour

// CompatOn reports whether this server replaces another service.
func (c *Config) CompatOn() bool { return c.Compat != Off }

// RedisURLs lists the addresses of redis.
func (c *Config) RedisURLs() (list []string) {
	for u := range strings.SplitSeq(c.Redis, ",") {
		if u = strings.TrimSpace(u); u != "" {
			list = append(list, u)
		}
	}
	return list
}

// Origins returns the servers that verify tokens, by the origin that clients name.
func (c *Config) Origins() map[string]nammayatri.Origin {
	all := map[string]nammayatri.Origin{}
	for _, name := range nammayatri.TokenOrigins() {
		if o, ok := c.origins[name]; ok {
			all[name] = o
		} else if c.AuthURL != "" {
			all[name] = nammayatri.Origin{URL: c.AuthURL, Key: c.AuthAPIKey, Expiry: defaultTokenExpiry}
		}
	}
	return all
}

// CompatPassedOver lists the settings of compat_config that have no effect here.
func (c *Config) CompatPassedOver() []string { return c.passedOver }

// PowerOfTwo reports whether max_shards is a power of two.
func (c *Config) PowerOfTwo() bool { return bits.OnesCount(uint(c.MaxShards)) == 1 }

// loadCompat reads settings from compat_config, for keys that nothing else has set.
func (c *Config) loadCompat(values *koanf.Koanf, environ []string) error {
	c.CompatDev = lookup(environ, "DEV") != ""
	name := values.String("compat_config")
	if name == "" && values.String("compat") == Nammayatri {
		name = lookup(environ, "DHALL_CONFIG") // the other service reads this variable: its environment can be used without changes
	}
	if name == "" {
		return nil
	}
	theirs, err := readCompat(name)
	if err != nil {
		return &CompatError{name, err}
	}
	r := compatReader{c: c, name: name, values: values, theirs: theirs}
	for _, key := range theirs.Keys() {
		if err := r.take(key); err != nil {
			return &CompatError{name, err}
		}
	}
	slices.Sort(c.passedOver)
	return r.redis()
}

// CompatError says why the settings of the service whose place this server takes cannot be read.
type CompatError struct {
	File string
	Err  error
}

func (e *CompatError) Error() string { return fmt.Sprintf("read compat_config %s: %v", e.File, e.Err) }

// Unwrap makes CompatError an error chain.
func (e *CompatError) Unwrap() error { return e.Err }

// readCompat reads a file of settings in Dhall, in JSON as dhall-to-json writes it, or in TOML; its name's ending decides.
func readCompat(name string) (*koanf.Koanf, error) {
	theirs := koanf.New("\n")
	var record map[string]any
	var err error
	switch strings.ToLower(filepath.Ext(name)) {
	case ".dhall":
		record, err = readDhall(name, dhallWithin)
	case ".json":
		var text []byte
		if text, err = os.ReadFile(name); err == nil { //nolint:gosec // a file that the operator names
			err = json.Unmarshal(text, &record)
		}
	default:
		return theirs, theirs.Load(file.Provider(name), toml.Parser())
	}
	if err != nil {
		return nil, err
	}
	return theirs, theirs.Load(confmap.Provider(record, ""), nil)
}

// compatReader converts the settings of a service with other names for them.
type compatReader struct {
	c              *Config
	name           string
	values, theirs *koanf.Koanf
}

// set sets one of our settings unless it is already set.
func (r *compatReader) set(key, value string) {
	if r.values.Exists(key) {
		return
	}
	_ = r.values.Set(key, value) // never fails, since keys are flat
	r.c.origin[key] = r.name
}

// take converts one setting of the file.
func (r *compatReader) take(key string) error {
	path := strings.Split(key, "\n")
	text := fmt.Sprint(r.theirs.Get(key))
	switch path[0] {
	case "grpc_port":
		r.set("grpc_addr", ":"+text)
	case "http_server_port":
		r.set("compat_http_addr", ":"+text)
	case "driver_api_base_url":
		r.set("driver_api_url", text)
	case "max_shards":
		r.set("max_shards", text)
	case "retry_delay_millis":
		r.set("compat_retry_delay", text+"ms")
	case "retry_delay_seconds": // in its older settings
		r.set("compat_retry_delay", text+"s")
	case "internal_auth_cfg":
		return r.origin(path[1:], text)
	case "redis_cfg":
		if len(path) == 2 && slices.Contains([]string{"host", "port", "cluster_enabled", "cluster_urls"}, path[1]) {
			return nil // together
		}
		fallthrough
	default:
		r.c.passedOver = append(r.c.passedOver, strings.Join(path, "."))
	}
	return nil
}

// origin converts one setting of the servers that verify tokens: for one kind of token or, as in older settings, for all kinds.
func (r *compatReader) origin(path []string, text string) error {
	names := nammayatri.TokenOrigins()
	if len(path) == 2 {
		if !slices.Contains(names, path[0]) {
			return fmt.Errorf("internal_auth_cfg.%s is not where tokens come from; there are %s", path[0], strings.Join(names, ", "))
		}
		names, path = path[:1], path[1:]
	}
	if len(path) != 1 {
		return fmt.Errorf("internal_auth_cfg must be a table with auth_url, auth_api_key and auth_token_expiry, or one for each of %s", strings.Join(names, ", "))
	}
	if r.c.origins == nil {
		r.c.origins = map[string]nammayatri.Origin{}
	}
	for _, name := range names {
		o, ok := r.c.origins[name]
		if !ok {
			o.Expiry = defaultTokenExpiry
		}
		switch path[0] {
		case "auth_url":
			o.URL = text
		case "auth_api_key":
			o.Key = text
		case "auth_token_expiry":
			seconds, err := strconv.ParseInt(text, 10, 32)
			if err != nil || seconds < 1 {
				return fmt.Errorf("internal_auth_cfg: auth_token_expiry = %q is not a whole number of seconds", text)
			}
			o.Expiry = time.Duration(seconds) * time.Second
		default:
			r.c.passedOver = append(r.c.passedOver, "internal_auth_cfg."+path[0])
		}
		r.c.origins[name] = o
	}
	return nil
}

// redis assembles the address of Redis.
func (r *compatReader) redis() error {
	if !r.theirs.Exists("redis_cfg") {
		return nil
	}
	var list []string
	if r.theirs.Bool("redis_cfg\ncluster_enabled") {
		for _, u := range r.theirs.Strings("redis_cfg\ncluster_urls") {
			if u != "" {
				list = append(list, redisURL(u))
			}
		}
	}
	if host := r.theirs.String("redis_cfg\nhost"); len(list) == 0 && host != "" {
		port := r.theirs.String("redis_cfg\nport")
		if port == "" {
			port = "6379"
		}
		list = append(list, redisURL(net.JoinHostPort(host, port)))
	}
	if len(list) > 0 {
		r.set("redis", strings.Join(list, ","))
	}
	return nil
}

// redisURL adds the scheme to an address without one.
func redisURL(addr string) string {
	if strings.Contains(addr, "://") {
		return addr
	}
	return "redis://" + addr
}

// adaptToCompat removes the limit of connects if nobody has set it and clients of another service connect: that service had no such limit,
// and all of its clients may come from the address of a proxy.
func (c *Config) adaptToCompat() {
	if !c.CompatOn() {
		return
	}
	if c.Origin("limit_connects") == "default" {
		c.LimitConnects = Rate{}
		c.origin["limit_connects"] = "compat"
	}
}

// validateCompat checks the settings for replacing another service.
func (c *Config) validateCompat(bad func(key, value, format string, args ...any)) {
	if !c.CompatOn() {
		for _, f := range []struct{ key, value string }{ // not redis, since godwit source add has a flag of that name
			{"auth_url", c.AuthURL}, {"auth_api_key", c.AuthAPIKey}, {"driver_api_url", c.DriverAPIURL}, {"compat_config", c.CompatConfig},
		} {
			if f.value != "" {
				bad(f.key, shownOf(c, f.key), "has no meaning without compat")
			}
		}
		return
	}
	if len(c.RedisURLs()) == 0 {
		bad("redis", "", "is needed by compat; write it like redis://10.0.0.1:6379")
	}
	for _, u := range c.RedisURLs() {
		if at, err := url.Parse(u); err != nil || at.Scheme != "redis" && at.Scheme != "rediss" || at.Host == "" {
			bad("redis", Redacted(u), "is not an address of Redis; write it like redis://10.0.0.1:6379 or rediss://:password@redis.example.org:6380")
		}
	}
	if !c.PowerOfTwo() && !c.Force {
		bad("max_shards", strconv.Itoa(c.MaxShards), "is not a power of two: publishers and readers of these streams would not agree on the shard of some clients; add --force to serve all the same")
	}
	if c.GRPCAddr == Off {
		bad("grpc_addr", c.GRPCAddr, "must not be off: compat serves there")
	}
	if p := c.AddrProblem(c.CompatHTTPAddr); p != "" {
		bad("compat_http_addr", c.CompatHTTPAddr, "%s", p)
	}
	origins := c.Origins()
	if len(origins) == 0 && !c.CompatDev {
		bad("auth_url", "", "is needed by compat: it is asked whose a client's token is")
	}
	for _, name := range nammayatri.TokenOrigins() {
		if o, ok := origins[name]; ok && !httpURL(o.URL) {
			bad("auth_url", Redacted(o.URL), "(for %s) is not a URL; write it like http://10.0.0.1:8016/internal/auth", name)
		}
	}
	if c.DriverAPIURL != "" && !baseURL(c.DriverAPIURL) {
		bad("driver_api_url", Redacted(c.DriverAPIURL), "is not a server's URL, without user, query and fragment; write it like http://10.0.0.1:8016/ui")
	}
}

func httpURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && !strings.Contains(text, "#")
}

// baseURL reports whether paths can be added to a URL. It accepts any host, since the operator's own servers may be anywhere.
func baseURL(text string) bool {
	_, err := urlguard.All.ParseBase(text)
	return err == nil
}

// shownOf returns the value of a setting without its secrets.
func shownOf(c *Config, key string) string {
	for _, f := range fields(c) {
		if f.Key == key {
			return f.Value()
		}
	}
	return ""
}
