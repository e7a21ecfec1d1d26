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

// certLook is how often the certificate's files are looked at, at most: at a handshake, never by a timer.
const certLook = time.Second

// Files serves the newest certificate and client authorities from files that may be replaced at any time.
type Files struct {
	certFile, keyFile, caFile string
	log                       *slog.Logger

	mu     sync.Mutex
	config *tls.Config
	stamps [3]time.Time
	looked time.Time
}

// Load reads the files; a failure later keeps what was read before.
func Load(certFile, keyFile, caFile string, log *slog.Logger) (*Files, error) {
	c := &Files{certFile: certFile, keyFile: keyFile, caFile: caFile, log: log}
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

// Server is the configuration of a listener that speaks the given protocols.
func (c *Files) Server(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			cfg := c.current().Clone()
			cfg.NextProtos = protocols
			return cfg, nil
		},
		// net/http wants to see a certificate or a way to one; GetConfigForClient is what is used.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c.current().Certificates[0], nil },
	}
}

// current returns the configuration of the files as they are now.
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
		return nil, fmt.Errorf("read tls_cert %s and tls_key %s: %w", c.certFile, c.keyFile, err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if c.caFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(c.caFile)
	if err != nil {
		return nil, fmt.Errorf("read tls_client_ca: %w", err)
	}
	cfg.ClientCAs = x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read tls_client_ca %s: %w", c.caFile, errors.New("no certificate in it"))
	}
	cfg.ClientAuth = tls.VerifyClientCertIfGiven
	return cfg, nil
}
