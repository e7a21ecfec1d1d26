package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// expiresSoon is the time before a certificate's end from which it is a finding: three weeks to renew it by hand.
const expiresSoon = 21 * 24 * time.Hour

// certificates checks the server's certificates: the one on its listener if it runs, else the files.
func (d *doctor) certificates(ctx context.Context) (list []finding) {
	if d.c.TLSCert != "" {
		if d.running && d.addrs.HTTP != "" {
			list = append(list, d.shown(ctx))
		} else {
			list = append(list, d.certFile("certificate", d.c.TLSCert, d.c.TLSKey))
		}
	}
	if d.c.ClusterTLSCert != "" {
		list = append(list, d.certFile("node's cert.", d.c.ClusterTLSCert, d.c.ClusterTLSKey))
	}
	return list
}

// shown checks the certificate that the running server shows to clients.
func (d *doctor) shown(ctx context.Context) finding {
	f := finding{Check: "certificate"}
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("the server did not answer within %s", readyWithin))
	defer cancel()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(displayAddr("", d.addrs.HTTP), "://"))
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	// judge checks the chain below, by the certificate's own name: clients do not use this address.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		f.Detail, f.Hint = "the listener does not speak TLS: "+err.Error(), "look at the server's log"
		return f
	}
	defer conn.Close()
	return d.judge(f, conn.(*tls.Conn).ConnectionState().PeerCertificates)
}

// certFile checks a certificate on disk.
func (d *doctor) certFile(check, cert, key string) finding {
	f := finding{Check: check}
	pair, err := tls.LoadX509KeyPair(d.path(cert), d.path(key))
	if err != nil {
		f.Detail, f.Hint = err.Error(), "the server does not start without: name PEM files that its user can read"
		return f
	}
	var chain []*x509.Certificate
	for _, der := range pair.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			f.Detail = cert + ": " + err.Error()
			return f
		}
		chain = append(chain, c)
	}
	return d.judge(f, chain)
}

// path returns the path of a file in a setting, which a running server resolves from the folder in which it was started.
func (d *doctor) path(name string) string {
	if filepath.IsAbs(name) || d.from == "" {
		return name
	}
	return filepath.Join(d.from, name)
}

// judge checks a chain, the server's own certificate first.
func (d *doctor) judge(f finding, chain []*x509.Certificate) finding {
	if len(chain) == 0 {
		f.Detail = "the server shows none"
		return f
	}
	leaf, now := chain[0], time.Now()
	var called []string
	called = append(called, leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		called = append(called, ip.String())
	}
	left := leaf.NotAfter.Sub(now)
	f.Detail = fmt.Sprintf("for %s, until %s", strings.Join(called, ", "), leaf.NotAfter.Local().Format(time.DateTime))
	switch {
	case len(called) == 0:
		f.Detail, f.Hint = "it has no name, so that every client refuses it", "issue it for the server's name, as subject alternative name"
		return f
	case now.Before(leaf.NotBefore):
		f.Detail, f.Hint = fmt.Sprintf("not good before %s", leaf.NotBefore.Local().Format(time.DateTime)), "check the clock"
		return f
	case left <= 0:
		f.Detail, f.Hint = fmt.Sprintf("expired %s", leaf.NotAfter.Local().Format(time.DateTime)), "renew it; a running server reads the files again by itself"
		return f
	case left < expiresSoon:
		f.Detail += fmt.Sprintf(": %d days", int(left/(24*time.Hour)))
		f.Hint = "renew it soon; a running server reads the files again by itself"
		return f
	}
	f.OK = true
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: called[0], Roots: d.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		f.Hint = "this machine does not trust it: clients name its authority with --ca FILE or SSL_CERT_FILE, unless it is one that others know"
	}
	return f
}
