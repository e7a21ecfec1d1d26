package cli

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/config"
)

const defaultURL = "http://127.0.0.1:8080"

// server is the server that a command calls, with its credentials.
type server struct {
	url, key, app string
	operator      string // the operator key; empty: none is known
	ca            string // file with authorities trusted besides the system's; empty: none

	named   string // where the address comes from, for errors; empty: nobody named a server
	context bool   // it is a context
	folder  string // the data folder of the server on this machine; empty: not known
	cert    string // file with the certificate that the server on this machine must show; empty: any that the system trusts
}

// server returns the server that a command calls, by the first of: --url, --context, --data, GODWIT_URL, the current context, the server
// that uses the data folder, the default port of this machine.
func (p *program) server() (server, error) {
	s, err := p.chosen()
	if err != nil {
		return s, err
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
	return s, p.findOperator(&s)
}

// chosen returns the server without the credentials that are kept elsewhere than its address.
func (p *program) chosen() (server, error) {
	fromEnv := p.env("GODWIT_URL")
	switch {
	case p.url != "" && p.context != "":
		return server{}, usagef("--url and --context name two servers; give one")
	case p.context != "" && p.data != "":
		return server{}, usagef("--context and --data name two servers; give one")
	case p.url != "":
		return server{url: p.url, named: "--url"}, nil
	case p.context != "":
		return p.inContext(p.context)
	case p.data != "":
		return runningIn(p.data)
	case fromEnv != "":
		return server{url: fromEnv, named: "GODWIT_URL"}, nil
	}
	if s, err := p.inContext(p.env("GODWIT_CONTEXT")); err != nil || s.url != "" {
		return s, err
	}
	if data := p.dataFolder(); held(data) {
		return runningIn(data)
	}
	return server{url: defaultURL}, nil
}

// inContext returns the server of a context; an empty name selects the current one, if there is one.
func (p *program) inContext(name string) (server, error) {
	list, err := p.readContexts()
	if err != nil {
		return server{}, err
	}
	s, err := list.named(name)
	if s.url != "" {
		s.named, s.context = "context "+cmp.Or(name, list.current), true
	}
	return s, err
}

// dataFolder returns the data folder of the settings: --data, GODWIT_DATA, godwit.toml, ./godwit-data.
func (p *program) dataFolder() string {
	if p.data != "" {
		return p.data
	}
	c, err := config.Load(nil, p.environ, p.sections()...)
	if err != nil { // a command that only looks for a server need not understand all settings
		return cmp.Or(p.env("GODWIT_DATA"), config.DefaultData)
	}
	return c.Data
}

func held(data string) bool {
	_, held := datadir.Held(data)
	return held
}

// runningIn returns the server that uses a data folder.
func runningIn(data string) (server, error) {
	s := server{named: "the data folder " + data, folder: data}
	if !held(data) {
		return s, withHint(fmt.Errorf("no server uses the data folder %s", data), bothWays)
	}
	at, err := datadir.ReadAddresses(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, withHint(fmt.Errorf("the server of %s is starting or stopping", data), "try again in a moment")
	case err != nil:
		return s, err
	case at.HTTP == "":
		return s, withHint(fmt.Errorf("the server of %s has no HTTP listener, so it cannot be asked", data), "turn it on with the setting http_addr")
	}
	s.url = displayAddr("http", at.HTTP)
	if set, err := datadir.ReadSettings(data); err == nil && set.Values["tls_cert"] != "" {
		s.url, s.cert = displayAddr("https", at.HTTP), set.Values["tls_cert"]
		if !filepath.IsAbs(s.cert) {
			s.cert = filepath.Join(set.Folder, s.cert)
		}
	}
	return s, nil
}

// bothWays is the hint for a command that needs a server or a folder and was given neither.
const bothWays = "start a server (godwit serve --dev) or name one with --url; the first steps in a folder that no server uses take --local"

// findOperator finds the operator key: in --operator-key-file or GODWIT_OPERATOR_KEY_FILE, in the context, or in the data folder of the
// server. The key of a folder goes to no other server than the folder's own, or to the one that is named together with it.
func (p *program) findOperator(s *server) (err error) {
	file := cmp.Or(p.operatorFile, p.env("GODWIT_OPERATOR_KEY_FILE"))
	switch {
	case file != "":
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read operator key: %w", err)
		}
		s.operator = textfile.Plain(b)
		return nil
	case s.operator != "":
		return nil
	case p.data != "":
		s.folder = p.data
	case s.folder == "" && onThisMachine(s.url):
		if own, err := runningIn(p.dataFolder()); err == nil && samePort(own.url, s.url) {
			s.folder = own.folder
		}
	}
	if s.folder == "" {
		return nil
	}
	s.operator, err = access.ReadOperatorKey(filepath.Join(s.folder, access.OperatorFile))
	if errors.Is(err, fs.ErrPermission) { // a command that needs no operator key works without
		err = nil
	}
	return err
}

func samePort(a, b string) bool {
	u, err := url.Parse(a)
	v, other := url.Parse(b)
	return err == nil && other == nil && u.Port() == v.Port() && u.Scheme == v.Scheme
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
	return p.clientOf(&s, s.key, opts...)
}

// clientOf makes a client of a server that presents a key.
func (p *program) clientOf(s *server, key string, opts ...godwit.Option) (*godwit.Client, error) {
	p.called, p.presented = s, key
	opts = append([]godwit.Option{godwit.WithAPIKey(key), godwit.WithApp(s.app), godwit.WithAttempts(3), godwit.WithOnRetry(p.retrying)}, opts...)
	switch {
	case s.cert != "":
		h, err := ownServer(s.cert)
		if err != nil {
			return nil, err
		}
		opts = append(opts, godwit.WithHTTPClient(h))
	case s.ca != "":
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

// ownServer makes an HTTP client for the server of this machine, which has to show the certificate in a file: that is for its public name,
// not for localhost.
func ownServer(file string) (*http.Client, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the server on this machine: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // documented
	transport.TLSClientConfig = &tls.Config{
		InsecureSkipVerify: true, // VerifyConnection compares the certificate itself
		VerifyConnection: func(c tls.ConnectionState) error {
			if certIn(c.PeerCertificates[0], text) {
				return nil
			}
			return fmt.Errorf("the server on this machine shows another certificate than that in %s", file)
		},
	}
	return &http.Client{Transport: transport}, nil
}

// certIn reports whether PEM text contains a certificate.
func certIn(cert *x509.Certificate, text []byte) bool {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return false
		}
		if bytes.Equal(block.Bytes, cert.Raw) {
			return true
		}
	}
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
			if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodDelete, Path: path(args[0]), IfMatch: atRevision(cmd)}, nil); err != nil {
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
