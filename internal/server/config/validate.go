package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/access/signin/provider"
	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/access/webhost"
	"godwit.dev/godwit/internal/notify/notification"
)

// Validate makes the checks across several settings. The error is an *Error, or several joined.
func (c *Config) Validate() error {
	var problems []error
	bad := func(key, value, format string, args ...any) {
		problems = append(problems, &Error{key, value, c.place(key), fmt.Sprintf(format, args...)})
	}
	if c.Data == "" {
		bad("data", c.Data, "must name a folder")
	}
	if c.OTLP != "" && !baseURL(c.OTLP) {
		bad("otlp", Redacted(c.OTLP), "is not a collector's URL, like http://localhost:4318, without user, query and fragment: paths are added to it")
	}
	if c.PublicURL != "" && !baseURL(c.PublicURL) {
		bad("public_url", Redacted(c.PublicURL), "is not a server's URL, like https://push.example.org, without user, query and fragment: paths are added to it")
	}
	if _, err := urlguard.ParseTargets(c.AllowTargets.Entries()); err != nil {
		bad("allow_targets", string(c.AllowTargets), "%v", err)
	}
	c.validateGateway(bad)
	c.validateOIDC(bad)
	c.validateUploads(bad)
	c.validateNATS(bad)
	c.validateCluster(bad)
	c.validateCompat(bad)
	for _, l := range []struct{ key, addr string }{{"http_addr", c.HTTPAddr}, {"grpc_addr", c.GRPCAddr}, {"mqtt_addr", c.MQTTAddr}, {"nats_addr", c.NATSAddr}, {"quic_addr", c.QUICAddr}, {"gateway_addr", c.GatewayAddr}, {"cluster_addr", c.ClusterAddr}} {
		if p := c.AddrProblem(l.addr); p != "" {
			bad(l.key, l.addr, "%s", p)
		}
	}
	if !c.embedded && c.HTTPAddr == Off && c.GRPCAddr == Off {
		bad("http_addr", c.HTTPAddr, "leaves no way in while grpc_addr is off too")
	}
	if c.QUICAddr != Off && c.TLSCert == "" {
		bad("quic_addr", c.QUICAddr, "needs tls_cert and tls_key: QUIC is always encrypted")
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		bad("tls_cert", c.TLSCert, "needs tls_key, and the other way round")
	}
	if c.TLSClientCA != "" && c.TLSCert == "" {
		bad("tls_client_ca", c.TLSClientCA, "needs tls_cert and tls_key: client certificates exist only on TLS")
	}
	if c.DevAnyAddress && !c.Dev {
		bad("dev_any_address", "true", "has no meaning without dev")
	}
	if c.BootstrapApp == "" && c.BootstrapKeyFile != "" {
		bad("bootstrap_key_file", c.BootstrapKeyFile, "needs bootstrap_app")
	}
	if c.BootstrapApp != "" {
		if err := notification.CheckName("bootstrap_app", c.BootstrapApp); err != nil {
			bad("bootstrap_app", c.BootstrapApp, "is not a name: %v", err)
		}
	}
	if c.Ballast > c.MinFree {
		bad("ballast", c.Ballast.String(), "is larger than min_free = %s", c.MinFree)
	}
	if c.GCPercent < 0 && c.MemoryLimit == 0 {
		bad("gc_percent", strconv.Itoa(c.GCPercent), "turns the collector off and needs memory_limit")
	}
	for _, s := range c.sections {
		if v, ok := s.Settings.(Validator); ok {
			v.Validate(bad)
		}
	}
	return errors.Join(problems...)
}

// Targets returns where URLs may lead that operators and admins of apps set. A development server that others can reach lets everybody in,
// so it does not lead them to this machine's services.
func (c *Config) Targets() urlguard.Targets {
	if c.AllowPrivateURLs {
		return urlguard.All
	}
	t, _ := urlguard.ParseTargets(c.AllowTargets.Entries()) // Validate has reported what cannot be read; none of it is allowed
	if c.Dev && !c.DevAnyAddress {
		t = t.And(urlguard.Loopback)
	}
	return t
}

// validateGateway checks the gateway's origin. Cookies ignore ports, so a gateway without its own listener needs another host name than the
// web page.
func (c *Config) validateGateway(bad func(key, value, format string, args ...any)) {
	if c.GatewayURL == "" {
		return
	}
	u, err := url.Parse(c.GatewayURL)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		bad("gateway_url", c.GatewayURL, "is not a URL like https://gw.example.org")
		return
	}
	if strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		bad("gateway_url", c.GatewayURL, "must be a scheme and a host alone: the gateway's path is /gw/")
	}
	page, err := url.Parse(c.PublicURL)
	if c.GatewayAddr == Off && err == nil && sameName(page.Hostname(), u.Hostname()) {
		bad("gateway_url", c.GatewayURL, "has the host of public_url; give the gateway another host, or a listener of its own with gateway_addr")
	}
}

// sameName compares hosts as browsers do, which ignore a dot at the end of a name.
func sameName(a, b string) bool {
	return strings.TrimSuffix(webhost.Host(a), ".") == strings.TrimSuffix(webhost.Host(b), ".")
}

// validateOIDC checks the settings of sign-in through a provider. It refuses settings that would let everybody in, or nobody.
func (c *Config) validateOIDC(bad func(key, value, format string, args ...any)) {
	if c.OIDCIssuer == "" {
		for _, f := range []struct{ key, value string }{{"oidc_client_id", c.OIDCClientID}, {"oidc_allow", c.OIDCAllow}} {
			if f.value != "" {
				bad(f.key, f.value, "has no meaning without oidc_issuer")
			}
		}
		if c.OIDCClientSecret != "" {
			bad("oidc_client_secret", "", "has no meaning without oidc_issuer")
		}
		return
	}
	if err := provider.CheckIssuer(c.OIDCIssuer, c.Targets()); err != nil {
		bad("oidc_issuer", c.OIDCIssuer, "%v", err)
	}
	if c.OIDCClientID == "" {
		bad("oidc_client_id", "", "is missing: oidc_issuer asks who wants to know")
	}
	switch rules, err := signin.ParseRules(c.OIDCAllow); {
	case err != nil:
		bad("oidc_allow", c.OIDCAllow, "%v", err)
	case len(rules) == 0:
		bad("oidc_allow", "", "is missing: without a rule nobody of oidc_issuer may come in")
	}
	if c.PublicURL == "" {
		bad("public_url", "", "must be set: oidc_issuer sends people back there")
	}
	if !slices.Contains(strings.Fields(c.OIDCScopes), "openid") {
		bad("oidc_scopes", c.OIDCScopes, "must have openid among them")
	}
}

// validateNATS checks the settings of an external NATS.
func (c *Config) validateNATS(bad func(key, value, format string, args ...any)) {
	if c.NATS == "" {
		for _, f := range []struct{ key, value string }{{"nats_credentials", c.NATSCredentials}, {"nats_ca", c.NATSCA}} {
			if f.value != "" {
				bad(f.key, f.value, "has no meaning without nats")
			}
		}
		return
	}
	for u := range strings.SplitSeq(c.NATS, ",") {
		switch at, err := url.Parse(strings.TrimSpace(u)); {
		case err != nil || at.Scheme != "nats" && at.Scheme != "tls" || at.Host == "":
			bad("nats", "", "is not a list of addresses; write them like nats://10.0.0.1:4222 or tls://nats.example.org:4222")
		case at.User != nil:
			bad("nats", at.Redacted(), "must not hold a password, which would show in lists of processes; use nats_credentials")
		}
	}
	if c.NATSAddr != Off {
		bad("nats_addr", c.NATSAddr, "cannot be served beside nats: NATS clients connect there")
	}
}

// AddrProblem returns the reason why the server cannot listen on an address; empty: it can.
func (c *Config) AddrProblem(addr string) string {
	if addr == Off {
		return ""
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "is not an address; write it like 127.0.0.1:8080, :8080, or off"
	}
	if !isPort(port) {
		return "has a port that is not a number from 0 to 65535"
	}
	if c.Dev && !c.DevAnyAddress && host != "" && !loopback(host) {
		return "can be reached by others, and a development server lets everybody in; use a loopback address, or add --dev-any-address"
	}
	return ""
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// Listens returns the address to bind for a listener's setting, by its key. Empty: off.
func (c *Config) Listens(key string) (string, error) {
	for _, f := range fields(c) {
		if f.Key != key {
			continue
		}
		if p := c.AddrProblem(f.Value()); p != "" {
			return "", &Error{key, f.Value(), c.place(key), p}
		}
		return c.ListenAddr(f.Value()), nil
	}
	return "", fmt.Errorf("there is no setting %s", key)
}

// ListenAddr returns the address to bind for one of the address settings: a development server binds loopback if no host is named. Empty:
// off.
func (c *Config) ListenAddr(addr string) string {
	if addr == Off {
		return ""
	}
	host, port, err := net.SplitHostPort(addr)
	if err == nil && host == "" && c.Dev && !c.DevAnyAddress {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// UploadsBucket reports whether uploads is the URL of a bucket, and not a folder.
func (c *Config) UploadsBucket() bool { return strings.Contains(c.Uploads, "://") }

// validateUploads checks where the gateway keeps large bodies.
func (c *Config) validateUploads(bad func(key, value, format string, args ...any)) {
	if !c.UploadsBucket() {
		return
	}
	u, err := urlguard.All.ParseBase(c.Uploads)
	switch {
	case err != nil || strings.Trim(u.Path, "/") == "":
		bad("uploads", Redacted(c.Uploads), "is neither a folder nor the URL of a bucket, like https://s3.eu-north-1.amazonaws.com/bucket or https://minio.example.org/bucket/godwit, without user, query and fragment")
	case c.UploadsKeyID == "" || c.UploadsSecret == "":
		bad("uploads_key_id", c.UploadsKeyID, "needs uploads_secret, and both are needed for the bucket in uploads")
	}
}
