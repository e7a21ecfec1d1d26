package godwit

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
)

// Client calls one server, or a cluster behind one address.
type Client struct {
	base     *url.URL
	http     *http.Client
	ownHTTP  *http.Transport // closed by Close; nil: the caller provided the HTTP client
	key      string
	token    TokenSource
	app      string
	attempts int
	timeout  time.Duration
	grpcAddr string
	grpcOpts []grpc.DialOption
	useRPC   bool
	rpc      *rpc // nil: back ends' calls use HTTP
	onRetry  func(err error, after time.Duration)
	roots    *x509.CertPool // certificate authorities to trust; nil: the system's

	transports map[string]Transport // by scheme
	transport  Transport            // nil: the package's own
	links      links
	prefer     preference // of the transport over WebSocket
}

// Option changes how a Client works.
type Option func(*Client)

// Defaults of a Client.
const (
	DefaultAttempts       = 6                // tries of one request, including the first
	DefaultRequestTimeout = 30 * time.Second // of one try
)

// idleConnections is the number of idle connections to the server that are kept, so that as many publishers can run without dialling
// repeatedly.
const idleConnections = 128

// New returns a client for the server at an http or https URL, for example "https://godwit.example.org", or at a URL of
// [WithTransport]: with that of the package godwit.dev/godwit/clients/go/quic, "quic://godwit.example.org:8443" listens over QUIC and calls the same
// port over HTTPS.
func New(server string, opts ...Option) (*Client, error) {
	base, err := url.Parse(strings.TrimSuffix(server, "/"))
	if err != nil {
		return nil, fmt.Errorf("godwit: server address: %w", err)
	}
	c := &Client{base: base, attempts: DefaultAttempts, timeout: DefaultRequestTimeout}
	for _, o := range opts {
		o(c)
	}
	c.transport = c.transports[base.Scheme]
	if base.Scheme != "http" && base.Scheme != "https" && c.transport == nil || base.Host == "" {
		return nil, fmt.Errorf("godwit: server address %q is not an http or https URL", server)
	}
	if c.transport != nil {
		base.Scheme = "https"
	}
	if strings.ContainsAny(server, "?#") {
		return nil, fmt.Errorf("godwit: server address %q must end before ? and #: paths are added to it", server)
	}
	if c.http == nil {
		c.ownHTTP = http.DefaultTransport.(*http.Transport).Clone()
		c.ownHTTP.MaxIdleConnsPerHost = idleConnections
		if c.roots != nil {
			c.ownHTTP.TLSClientConfig = &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}
		}
		c.http = &http.Client{Transport: c.ownHTTP}
	}
	if c.useRPC {
		if err := c.openRPC(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Close closes idle connections. It does not interrupt calls under way, but those of WithRPC.
func (c *Client) Close() {
	if c.rpc != nil {
		_ = c.rpc.cc.Close() // it was open
	}
	if c.ownHTTP != nil {
		c.ownHTTP.CloseIdleConnections()
	}
}

// WithAPIKey sets a back end's API key. Publishing needs role publish; status and events need role read.
func WithAPIKey(key string) Option { return func(c *Client) { c.key = key } }

// WithToken sets a recipient's fixed token. Prefer WithTokenSource if tokens expire.
func WithToken(token string) Option {
	return WithTokenSource(StaticToken(token))
}

// WithTokenSource sets the source of a recipient's tokens.
func WithTokenSource(src TokenSource) Option { return func(c *Client) { c.token = src } }

// WithApp names the app. It is needed if the server has several apps and neither key nor token names one.
func WithApp(app string) Option { return func(c *Client) { c.app = app } }

// WithHTTPClient replaces the HTTP client, for proxies, certificates or tests. It must not have a Timeout: event
// streams and WebSockets stay open.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithAttempts sets the number of tries of each request, including the first; at least 1.
func WithAttempts(n int) Option { return func(c *Client) { c.attempts = max(n, 1) } }

// WithRequestTimeout limits one try of a request. A context limits all tries together.
func WithRequestTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithRootCAs sets the certificate authorities to trust instead of the system's (which the environment variable SSL_CERT_FILE also
// replaces). It has no effect on a client set by WithHTTPClient.
func WithRootCAs(roots *x509.CertPool) Option { return func(c *Client) { c.roots = roots } }

// WithOnRetry sets a function that is called before each retry of a request after a temporary failure; after is the wait.
func WithOnRetry(f func(err error, after time.Duration)) Option {
	return func(c *Client) { c.onRetry = f }
}

// WithGRPC makes Listen use gRPC at this address ("host:50051") instead of a WebSocket. Pass transport credentials in opts; without any,
// the connection is not encrypted.
func WithGRPC(addr string, opts ...grpc.DialOption) Option {
	return func(c *Client) { c.grpcAddr, c.grpcOpts = addr, opts }
}
