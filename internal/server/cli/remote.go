package cli

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/textfile"
)

const defaultURL = "http://127.0.0.1:8080"

// server is the server that a command calls, with its credentials.
type server struct {
	url, key, app string
	ca            string // file with authorities trusted besides the system's; empty: none
}

// server returns the server that a command calls, by the first of: --url, --context, GODWIT_URL, the current context, this machine.
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
		list, err := p.readContexts()
		if err == nil {
			s, err = list.named(name)
		}
		if err != nil {
			return s, err
		}
	case s.url == "":
		s.url = p.env("GODWIT_URL")
	}
	if s.url == "" {
		s.url = defaultURL
	}
	if p.ca != "" {
		s.ca = p.ca
	}
	key, err := p.apiKey()
	if err != nil {
		return s, err
	}
	if key != "" {
		s.key = key
	}
	if s.key == "" && onThisMachine(s.url) {
		s.key = access.DevKey // the key of development servers; other servers refuse it
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
	return textfile.Plain(b), nil
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

// client makes a client of the server that the command calls.
func (p *program) client(opts ...godwit.Option) (*godwit.Client, error) {
	s, err := p.server()
	if err != nil {
		return nil, err
	}
	opts = append([]godwit.Option{godwit.WithAPIKey(s.key), godwit.WithApp(s.app), godwit.WithAttempts(3), godwit.WithOnRetry(p.retrying)}, opts...)
	if s.ca != "" {
		pool, err := authorities(s.ca)
		if err != nil {
			return nil, err
		}
		opts = append(opts, godwit.WithRootCAs(pool))
	}
	if err := checkURL(s.url); err != nil {
		return nil, err
	}
	return godwit.New(s.url, opts...)
}

// withClient runs do with a client of the server that the command calls.
func (p *program) withClient(do func(c *godwit.Client) error) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// deletes makes a command that deletes the thing named by its argument, at a path. done is the success message with a placeholder for the
// name.
func (p *program) deletes(cmd *cobra.Command, what string, path func(name string) string, done string) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.withClient(func(c *godwit.Client) error {
			if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodDelete, Path: path(args[0])}, nil); err != nil {
				return fmt.Errorf("delete %s %s: %w", what, args[0], err)
			}
			if p.json {
				return p.line(map[string]string{"deleted": args[0]})
			}
			_, err := fmt.Fprintf(p.stdout, done+"\n", args[0])
			return err
		})
	}
	return cmd
}

// checkURL refuses texts that are not a server's address.
func checkURL(server string) error {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return withHint(usagef("server address %q is not an http or https URL", server), "write it like http://127.0.0.1:8080 or https://godwit.example.org, in --url or GODWIT_URL")
	}
	return nil
}

// retrying prints that a request failed in a way that may pass, and when it is sent again.
func (p *program) retrying(err error, after time.Duration) {
	p.note("%v; trying again in %s", err, after.Round(100*time.Millisecond))
}

// authorities returns the authorities of the system and those in a PEM file.
func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read --ca: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, withHint(fmt.Errorf("--ca %s holds no certificate", file), "name the PEM file of the authority that signed the server's certificate: it begins with -----BEGIN CERTIFICATE-----")
	}
	return pool, nil
}

// displayAddr returns a listening address as a URL that works on this machine.
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
