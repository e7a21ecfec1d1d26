// Package dbserver has what kinds of sources share that read a database server: the fields that say where it is, and how it is reached.
package dbserver

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
)

// Fields of the kinds.
const (
	FieldURL      = "url"
	FieldPassword = "password"
	FieldCA       = "ca"
)

// Limits of the fields, in bytes.
const (
	maxURL      = 2048
	maxPassword = 512
	maxCA       = 64 << 10
)

// DialWithin limits the time to connect.
const DialWithin = 5 * time.Second

// Server is what the URLs of a kind of database server may have.
type Server struct {
	Label      string // the database's name
	Flag       string // of the command line, before -url
	Schemes    []string
	Example    string
	Socket     string   // parameter that names a socket
	Port       string   // where the URL has none
	Modes      []string // values of sslmode
	Parameters []string // others that may be given; the rest name files of this machine, or change what is read
}

// Fields are the fields that say where the server is.
func (s *Server) Fields() []setting.Field {
	return []setting.Field{
		{Name: FieldURL, Address: true, Flag: s.Flag + "-url", Help: "where " + s.Label + " is: " + s.Example},
		{Name: FieldPassword, Secret: true, Flag: "password-file", Help: "file with the password"},
		{Name: FieldCA, Lines: true, Flag: s.Flag + "-ca", Help: "file with the certificates of the authorities that vouch for the server, PEM (default: the system's)"},
	}
}

// Tidy moves a password out of the URL into the field of that name.
func Tidy(v setting.Values) {
	u, err := url.Parse(v.Text(FieldURL))
	if err != nil || u.User == nil {
		return
	}
	if password, ok := u.User.Password(); ok {
		if _, given := v[FieldPassword]; !given {
			setting.Put(v, FieldPassword, password)
		}
		u.User = url.User(u.User.Username())
		setting.Put(v, FieldURL, u.String())
	}
}

// Check validates the fields. Its error is a *notification.FieldError, which never shows the URL: it may contain a password.
func (s *Server) Check(v setting.Values) error {
	if problem := s.checkURL(v.Text(FieldURL)); problem != "" {
		return notification.BadField(FieldURL, "%s", problem)
	}
	for field, most := range map[string]int{FieldPassword: maxPassword, FieldCA: maxCA} {
		if len(v.Text(field)) > most {
			return notification.BadField(field, "has more than %d bytes", most)
		}
	}
	if ca := v.Text(FieldCA); ca != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(ca)) {
		return notification.BadField(FieldCA, "has no certificate in PEM")
	}
	return nil
}

func (s *Server) checkURL(raw string) string {
	if raw == "" {
		return "is required: where " + s.Label + " is, like " + s.Example
	}
	u, err := url.Parse(raw)
	if err != nil || len(raw) > maxURL || !slices.Contains(s.Schemes, u.Scheme) || u.Fragment != "" || u.Opaque != "" {
		return "is not a URL like " + s.Example
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "is not a URL like " + s.Example
	}
	switch {
	case u.Hostname() == "" && query.Get(s.Socket) == "":
		return "must name a host, like " + s.Example
	case (u.User == nil || u.User.Username() == "") && query.Get("user") == "":
		return "must name the user, like " + s.Example
	case strings.Trim(u.Path, "/") == "":
		return "must name the database, like " + s.Example
	}
	if _, secret := u.User.Password(); secret {
		return "must not contain a password: it has a field of its own, which is never shown"
	}
	if port := u.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return "has no valid port"
		}
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && addr.IsUnspecified() {
		return "names no host"
	}
	return s.checkQuery(query)
}

func (s *Server) checkQuery(query url.Values) string {
	for name, values := range query {
		switch {
		case name == "sslmode":
			if !slices.Contains(s.Modes, values[0]) {
				return "sslmode must be one of " + strings.Join(s.Modes, ", ")
			}
		case name == s.Socket:
			if !strings.HasPrefix(values[0], "/") {
				return name + " among the parameters may only be the path of a socket"
			}
		case !slices.Contains(s.Parameters, name):
			return fmt.Sprintf("may not have %.40q; of parameters there are sslmode, %s, %s", name, s.Socket, strings.Join(s.Parameters, ", "))
		}
	}
	return ""
}

// Place names the database of a source.
func (s *Server) Place(v setting.Values) string {
	u, err := url.Parse(v.Text(FieldURL))
	if err != nil {
		return v.Text(FieldURL)
	}
	return s.host(u) + "/" + strings.Trim(u.Path, "/")
}

// Recipients names the server and the user of a source, for setting.Recipient.
func (s *Server) Recipients(v setting.Values) []string {
	u, err := url.Parse(v.Text(FieldURL))
	if err != nil || v.Text(FieldURL) == "" {
		return nil
	}
	user := u.Query().Get("user")
	if user == "" {
		user = u.User.Username()
	}
	return []string{user + "@" + s.host(u)}
}

// host names the server of a URL.
func (s *Server) host(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if socket := u.Query().Get(s.Socket); socket != "" {
		host = socket
	}
	if port == "" {
		port = s.Port
	}
	return net.JoinHostPort(host, port)
}

// Mode returns how a connection is encrypted: with authorities of its own, the server must always prove its name.
func Mode(query url.Values, ca string) string {
	m := query.Get("sslmode")
	if ca != "" && (m == "" || m == "prefer" || m == "require") {
		return "verify-full"
	}
	return m
}

// Pool returns the authorities that vouch for a server; nil: the system's.
func Pool(ca string) *x509.CertPool {
	if ca == "" {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	return roots
}

// Dialer dials the targets of a source, and sockets if it has no limits. It must get names, and not addresses that a library has found
// for them, because targets may be named.
func Dialer(t *source.Target) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: DialWithin, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if network == "unix" && !t.Targets.Everything() {
			return nil, fmt.Errorf("dial %s: %w", address, urlguard.ErrPrivate)
		}
		return t.Targets.Guard(d, address).DialContext(ctx, network, address)
	}
}
