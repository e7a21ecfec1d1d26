// Package testservice is shared by the fake providers that tests send to.
package testservice

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"time"
)

// Certificate is a server's own.
type Certificate struct{ server *httptest.Server }

// CertificateOf returns the certificate of a server that was started with TLS.
func CertificateOf(s *httptest.Server) Certificate { return Certificate{s} }

// CertPEM returns the certificate to trust, as PEM for SSL_CERT_FILE.
func (c Certificate) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
}

// Trust makes a client trust the server.
func (c Certificate) Trust(client *http.Client) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(c.server.Certificate())
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return client
}

// Wait keeps a client waiting, for ever or for delay. It returns false if the client or the service ended first: there is nobody to answer.
func Wait(client context.Context, closed <-chan struct{}, hang bool, delay time.Duration) bool {
	var enough <-chan time.Time
	switch {
	case hang:
	case delay > 0:
		t := time.NewTimer(delay)
		defer t.Stop()
		enough = t.C
	default:
		return true
	}
	select {
	case <-enough:
		return true
	case <-client.Done():
	case <-closed:
	}
	return false
}
