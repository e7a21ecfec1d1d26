package config

import (
	"encoding/json"
	"fmt"
	"net"
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

	"godwit.dev/godwit/internal/compat/nammayatri"
)

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
		if text, err = os.ReadFile(name); err == nil { // a file that the operator names
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
