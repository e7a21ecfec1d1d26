// Package certs serves TLS certificates from files that may be replaced at any time.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certLook is the shortest interval of checks whether the certificate's files have changed: at a handshake, never by a timer.
const certLook = time.Second

// Files serves the newest certificate and client authorities from files that may be replaced at any time.
type Files struct {
	certFile, keyFile, caFile string
	settings                  [3]string // that named them
	mutual                    bool      // both ends show a certificate
	log                       *slog.Logger

	mu     sync.Mutex
	config *tls.Config
	stamps [3]time.Time
	looked time.Time
}

// Load reads the files; if a later read fails, the files read before stay in use.
func Load(certFile, keyFile, caFile string, log *slog.Logger) (*Files, error) {
	return load(&Files{certFile: certFile, keyFile: keyFile, caFile: caFile, settings: [3]string{"tls_cert", "tls_key", "tls_client_ca"}, log: log})
}

// LoadMutual reads the files of a node, which shows its certificate to other nodes and requires one from each.
func LoadMutual(certFile, keyFile, caFile string, log *slog.Logger) (*Files, error) {
	return load(&Files{
		certFile: certFile, keyFile: keyFile, caFile: caFile, settings: [3]string{"cluster_tls_cert", "cluster_tls_key", "cluster_tls_ca"}, mutual: true, log: log,
	})
}

func load(c *Files) (*Files, error) {
	stamps, err := c.stat()
	if err != nil {
		return nil, err
	}
	if c.config, err = c.read(); err != nil {
		return nil, err
	}
	c.stamps, c.looked = stamps, time.Now()
	return c, nil
}

// Server returns the configuration of a listener with the given protocols.
func (c *Files) Server(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			cfg := c.current().Clone()
			cfg.NextProtos = protocols
			return cfg, nil
		},
		// net/http requires a certificate or a function that returns one, even with GetConfigForClient.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c.current().Certificates[0], nil },
	}
}

// NotAfter returns the end of the certificate in use.
func (c *Files) NotAfter() time.Time { return c.current().Certificates[0].Leaf.NotAfter }

// Mutual returns the configuration for both ends of a connection between nodes. The authorities for outgoing connections are read only
// once.
func (c *Files) Mutual() *tls.Config {
	cfg := c.Server()
	cfg.RootCAs, cfg.ClientCAs, cfg.ClientAuth = c.config.ClientCAs, c.config.ClientCAs, tls.RequireAndVerifyClientCert
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.current().Certificates[0], nil }
	return cfg
}

// current returns the configuration from the current files.
func (c *Files) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.looked) < certLook {
		return c.config
	}
	c.looked = now
	stamps, err := c.stat()
	if err == nil && stamps == c.stamps {
		return c.config
	}
	var next *tls.Config
	if err == nil {
		next, err = c.read()
	}
	if err != nil {
		c.log.Warn("certificate cannot be reloaded, the former one stays", "error", err)
		return c.config
	}
	c.log.Info("certificate reloaded", "file", c.certFile)
	c.config, c.stamps = next, stamps
	return c.config
}

func (c *Files) stat() (stamps [3]time.Time, err error) {
	for i, name := range []string{c.certFile, c.keyFile, c.caFile} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return stamps, fmt.Errorf("read TLS files: %w", err)
		}
		stamps[i] = info.ModTime()
	}
	return stamps, nil
}

func (c *Files) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("read %s %s and %s %s: %w", c.settings[0], c.certFile, c.settings[1], c.keyFile, err)
	}
	if ends := pair.Leaf.NotAfter; c.mutual && time.Now().After(ends) {
		c.log.Warn("other nodes will refuse this one: its certificate has expired", "cluster_tls_cert", c.certFile, "expired_at", ends)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if c.caFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(c.caFile)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.settings[2], err)
	}
	cfg.ClientCAs = x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read %s %s: %w", c.settings[2], c.caFile, errors.New("no certificate in it"))
	}
	cfg.ClientAuth = tls.VerifyClientCertIfGiven
	if c.mutual {
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return cfg, nil
}
