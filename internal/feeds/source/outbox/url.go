package outbox

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/cluster/setting"
)

// server is what the URLs of a database server may have.
type server struct {
	flag       string // of the command line, before -url
	schemes    []string
	example    string
	socket     string   // parameter that names a socket
	modes      []string // values of sslmode
	parameters []string // others that may be given; the rest name files of this machine, or change what is read
}

// check returns what is wrong with a URL. The text never shows the URL, which may contain a password.
func (s *server) check(raw string) string {
	if raw == "" {
		return "is required: where the database is, like " + s.example
	}
	u, err := url.Parse(raw)
	if err != nil || len(raw) > maxURL || !slices.Contains(s.schemes, u.Scheme) || u.Fragment != "" || u.Opaque != "" {
		return "is not a URL like " + s.example
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "is not a URL like " + s.example
	}
	switch {
	case u.Hostname() == "" && query.Get(s.socket) == "":
		return "must name a host, like " + s.example
	case (u.User == nil || u.User.Username() == "") && query.Get("user") == "":
		return "must name the user, like " + s.example
	case strings.Trim(u.Path, "/") == "":
		return "must name the database, like " + s.example
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

func (s *server) checkQuery(query url.Values) string {
	for name, values := range query {
		switch {
		case name == "sslmode":
			if !slices.Contains(s.modes, values[0]) {
				return "sslmode must be one of " + strings.Join(s.modes, ", ")
			}
		case name == s.socket:
			if !strings.HasPrefix(values[0], "/") {
				return name + " among the parameters may only be the path of a socket"
			}
		case !slices.Contains(s.parameters, name):
			return fmt.Sprintf("may not have %.40q; of parameters there are sslmode, %s, %s", name, s.socket, strings.Join(s.parameters, ", "))
		}
	}
	return ""
}

// tidyURL moves a password out of the URL.
func tidyURL(v setting.Values) {
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

// mode returns how a connection is encrypted: with authorities of its own, the server must always prove its name.
func mode(query url.Values, ca string) string {
	m := query.Get("sslmode")
	if ca != "" && (m == "" || m == "prefer" || m == "require") {
		return "verify-full"
	}
	return m
}

// pool returns the authorities that vouch for a server; nil: the system's.
func pool(ca string) *x509.CertPool {
	if ca == "" {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	return roots
}

// encrypted returns the TLS settings of a mode, where the database's own driver has none.
func encrypted(mode, host, ca string) *tls.Config {
	switch mode {
	case "disable":
		return nil
	case "verify-full":
		return &tls.Config{ServerName: host, RootCAs: pool(ca), MinVersion: tls.VersionTLS12}
	}
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // prefer and require say that the name is not checked
}
