// Package tlstest is what providers for tests that speak TLS share.
package tlstest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
)

// Certificate is a server's own.
type Certificate struct{ server *httptest.Server }

// Of is the certificate of a server that was started with TLS.
func Of(s *httptest.Server) Certificate { return Certificate{s} }

// CertPEM is the certificate to trust, for SSL_CERT_FILE.
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
