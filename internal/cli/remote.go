package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/knadh/koanf/parsers/toml/v2"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/access"
)

const defaultURL = "http://127.0.0.1:8080"

// server is where a command goes and as whom.
type server struct {
	url, key, app string
}

// server finds out which server a command means: --url, --context, GODWIT_URL, the current context, this machine.
func (p *program) server() (server, error) {
	if p.url != "" && p.context != "" {
		return server{}, usagef("--url and --context name two servers; give one")
	}
	s := server{url: p.url}
	switch {
	case p.context != "" || p.url == "" && p.env("GODWIT_URL") == "":
		name := p.context
		if name == "" {
			name = p.env("GODWIT_CONTEXT")
		}
		var err error
		if s, err = p.contextNamed(name); err != nil {
			return s, err
		}
	case s.url == "":
		s.url = p.env("GODWIT_URL")
	}
	if s.url == "" {
		s.url = defaultURL
	}
	key, err := p.apiKey()
	if err != nil {
		return s, err
	}
	if key != "" {
		s.key = key
	}
	if s.key == "" && onThisMachine(s.url) {
		s.key = access.DevKey // what a development server takes; any other answers that it is no key
	}
	return s, nil
}

// apiKey reads the key from its file or the environment; never from the arguments, which other users can see.
func (p *program) apiKey() (string, error) {
	if p.keyFile == "" {
		return p.env("GODWIT_API_KEY"), nil
	}
	b, err := os.ReadFile(p.keyFile)
	if err != nil {
		return "", fmt.Errorf("read API key: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func onThisMachine(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	host := u.Hostname()
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// contextsFile is where a user's servers are written down:
//
//	current = "prod"
//	[contexts.prod]
//	url     = "https://godwit.example.org"
//	api_key = "gw_..."
func (p *program) contextsFile() string {
	dir := p.env("XDG_CONFIG_HOME")
	if dir == "" {
		if p.env("HOME") == "" {
			return ""
		}
		dir = filepath.Join(p.env("HOME"), ".config")
	}
	return filepath.Join(dir, "godwit", "contexts.toml")
}

func (p *program) contextNamed(name string) (s server, err error) {
	file := p.contextsFile()
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || file == "" {
		if name == "" {
			return s, nil
		}
		return s, withHint(fmt.Errorf("there is no context %s", name), "write it to %s: [contexts.%s], url, api_key", file, name)
	}
	if err != nil {
		return s, fmt.Errorf("read contexts: %w", err)
	}
	values, err := toml.Parser().Unmarshal(b)
	if err != nil {
		return s, fmt.Errorf("read contexts from %s: %w", file, err)
	}
	if name == "" {
		if name, _ = values["current"].(string); name == "" {
			return s, nil
		}
	}
	all, _ := values["contexts"].(map[string]any)
	one, ok := all[name].(map[string]any)
	if !ok {
		return s, withHint(fmt.Errorf("there is no context %s", name), "%s lists contexts as [contexts.NAME]", file)
	}
	for key, into := range map[string]*string{"url": &s.url, "api_key": &s.key, "app": &s.app} {
		if v, ok := one[key]; ok {
			*into = fmt.Sprint(v)
		}
	}
	return s, nil
}

// client makes a client of the server that the command means.
func (p *program) client(opts ...godwit.Option) (*godwit.Client, error) {
	s, err := p.server()
	if err != nil {
		return nil, err
	}
	opts = append([]godwit.Option{godwit.WithAPIKey(s.key), godwit.WithApp(s.app), godwit.WithAttempts(3)}, opts...)
	c, err := godwit.New(s.url, opts...)
	if err != nil {
		return nil, &usageError{err}
	}
	return c, nil
}

// displayAddr is a listening address as a URL that works on this machine.
func displayAddr(scheme, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return scheme + "://" + addr
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
