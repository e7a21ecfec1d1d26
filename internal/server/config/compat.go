package config

import (
	"fmt"
	"math/bits"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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
