package config

import (
	"net"
	"net/url"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
)

// Peers lists the addresses of cluster_peers.
func (c *Config) Peers() (list []string) {
	for p := range strings.SplitSeq(c.ClusterPeers, ",") {
		if p = strings.TrimSpace(p); p != "" {
			list = append(list, p)
		}
	}
	return list
}

// Several reports whether this server is one of several nodes, which their own listeners or a shared NATS connect.
func (c *Config) Several() bool { return c.ClusterAddr != Off || c.Postgres != "" && c.NATS != "" }

// validateCluster checks the settings of several nodes. It requires a common store: otherwise each node would have its own mailboxes, and
// clients would get different answers from each.
func (c *Config) validateCluster(bad func(key, value, format string, args ...any)) {
	c.validatePostgres(bad)
	if c.Node != "" {
		if err := notification.CheckName("node", c.Node); err != nil {
			bad("node", c.Node, "is not a name: %v", err)
		}
	}
	if c.ClusterAddr == Off {
		c.validateAlone(bad)
		return
	}
	switch {
	case c.Postgres == "":
		bad("cluster_addr", c.ClusterAddr, "needs postgres: nodes must share what they keep, and the SQLite files in data are this node's alone")
	case c.NATS != "":
		bad("cluster_addr", c.ClusterAddr, "cannot be used beside nats, which joins the nodes in its place: leave out one of them")
	}
	if c.ClusterSecretFile == "" {
		bad("cluster_addr", c.ClusterAddr, "needs cluster_secret_file; make one with: openssl rand -hex 32 > cluster.secret")
	}
	if given := (c.ClusterTLSCert != "") != (c.ClusterTLSKey != "") || (c.ClusterTLSCert != "") != (c.ClusterTLSCA != ""); given {
		bad("cluster_tls_cert", c.ClusterTLSCert, "goes together with cluster_tls_key and cluster_tls_ca: each node shows a certificate and checks those of the others")
	}
	for _, p := range c.Peers() {
		if host, port, err := net.SplitHostPort(p); err != nil || host == "" || !isPort(port) || port == "0" {
			bad("cluster_peers", p, "is not an address; write it like 10.0.0.2:6222")
		}
	}
}

// validateAlone refuses the settings of a cluster for a server that joins none.
func (c *Config) validateAlone(bad func(key, value, format string, args ...any)) {
	for _, f := range []struct{ key, value string }{
		{"cluster_peers", c.ClusterPeers},
		{"cluster_secret_file", c.ClusterSecretFile},
		{"cluster_tls_cert", c.ClusterTLSCert},
		{"cluster_tls_key", c.ClusterTLSKey},
		{"cluster_tls_ca", c.ClusterTLSCA},
	} {
		if f.value != "" {
			bad(f.key, f.value, "has no meaning without cluster_addr")
		}
	}
}

// validatePostgres checks the database's settings: its password must not appear in lists of processes or in messages.
func (c *Config) validatePostgres(bad func(key, value, format string, args ...any)) {
	if c.Postgres == "" {
		return
	}
	u, err := url.Parse(c.Postgres)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		bad("postgres", Redacted(c.Postgres), "is not the URL of a PostgreSQL database; write it like postgres://godwit@db.example.org/godwit")
		return
	}
	_, hidden := u.User.Password()
	if hidden = hidden || u.Query().Has("password"); hidden && strings.HasPrefix(c.Origin("postgres"), "--") {
		bad("postgres", Redacted(c.Postgres), "must not hold a password on the command line, which shows in lists of processes; set GODWIT_POSTGRES or write it into the configuration file")
	}
}
