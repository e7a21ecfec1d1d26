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

// Client talks to one server, or to a cluster behind one address.
type Client struct {
	base     *url.URL
	http     *http.Client
	ownHTTP  *http.Transport // closed by Close; nil: the caller's client
	key      string
	token    TokenSource
	app      string
	attempts int
	timeout  time.Duration
	grpcAddr string
	grpcOpts []grpc.DialOption
	onRetry  func(err error, after time.Duration)
	roots    *x509.CertPool // trusted instead of the system's; nil: the system's
}

// Option changes how a Client works.
type Option func(*Client)

// Defaults of a Client.
const (
	DefaultAttempts       = 6                // tries of one request, the first included
	DefaultRequestTimeout = 30 * time.Second // of one try
)

// idleConnections kept to the server; as many publishers may run without dialling again and again.
const idleConnections = 128

// New makes a client of the server at an http or https URL, for example "https://godwit.example.org".
func New(server string, opts ...Option) (*Client, error) {
	base, err := url.Parse(strings.TrimSuffix(server, "/"))
	if err != nil {
		return nil, fmt.Errorf("godwit: server address: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("godwit: server address %q is not an http or https URL", server)
	}
	if strings.ContainsAny(server, "?#") {
		return nil, fmt.Errorf("godwit: server address %q must end before ? and #: paths are added to it", server)
	}
	c := &Client{base: base, attempts: DefaultAttempts, timeout: DefaultRequestTimeout}
	for _, o := range opts {
		o(c)
	}
	if c.http == nil {
		c.ownHTTP = http.DefaultTransport.(*http.Transport).Clone()
		c.ownHTTP.MaxIdleConnsPerHost = idleConnections
		if c.roots != nil {
			c.ownHTTP.TLSClientConfig = &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}
		}
		c.http = &http.Client{Transport: c.ownHTTP}
	}
	return c, nil
}

// Close closes idle connections. Calls under way are not disturbed.
func (c *Client) Close() {
	if c.ownHTTP != nil {
		c.ownHTTP.CloseIdleConnections()
	}
}

// WithAPIKey sets the key of a back end: role publish for publishing, read for status and events.
func WithAPIKey(key string) Option { return func(c *Client) { c.key = key } }

// WithToken sets a recipient's token that does not change. Prefer WithTokenSource where tokens expire.
func WithToken(token string) Option {
	return WithTokenSource(StaticToken(token))
}

// WithTokenSource sets where a recipient's tokens come from.
func WithTokenSource(src TokenSource) Option { return func(c *Client) { c.token = src } }

// WithApp names the app, if neither key nor token does and the server has several.
func WithApp(app string) Option { return func(c *Client) { c.app = app } }

// WithHTTPClient replaces the HTTP client, for proxies, certificates or tests. It must not have a Timeout: event
// streams and WebSockets stay open.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithAttempts sets how often one request is tried in all, at least once.
func WithAttempts(n int) Option { return func(c *Client) { c.attempts = max(n, 1) } }

// WithRequestTimeout bounds one try of a request. A context bounds all tries together.
func WithRequestTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithRootCAs sets the authorities that the server's certificate is checked with, instead of the system's (which the
// environment variable SSL_CERT_FILE replaces as well). An HTTP client of WithHTTPClient brings its own.
func WithRootCAs(roots *x509.CertPool) Option { return func(c *Client) { c.roots = roots } }

// WithOnRetry has f called before a request that failed in a way that may pass is sent again, after that long.
func WithOnRetry(f func(err error, after time.Duration)) Option {
	return func(c *Client) { c.onRetry = f }
}

// WithGRPC makes Listen use gRPC at this address ("host:50051") instead of a WebSocket. Give the transport
// credentials among the options; without any the connection is plain.
func WithGRPC(addr string, opts ...grpc.DialOption) Option {
	return func(c *Client) { c.grpcAddr, c.grpcOpts = addr, opts }
}
