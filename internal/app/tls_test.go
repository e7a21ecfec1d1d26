package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// issue writes a self-signed certificate of that name and its key into dir and returns the pool that trusts it.
func issue(t *testing.T, dir, name string) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(cert)
	return certFile, keyFile, pool
}

func write(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// servedName is the common name of the certificate that a handshake with conf shows.
func servedName(t *testing.T, conf *tls.Config) (name, protocol string) {
	t.Helper()
	ours, theirs := net.Pipe()
	server := tls.Server(theirs, conf)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, server)
		server.Close()
	}()
	client := tls.Client(ours, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) // the test looks at the certificate itself
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := client.HandshakeContext(ctx); err != nil {
		t.Fatal(err)
	}
	state := client.ConnectionState()
	ours.Close()
	<-done
	return state.PeerCertificates[0].Subject.CommonName, state.NegotiatedProtocol
}

func TestCertificateIsReloadedWhenItsFilesChangeAndKeptWhenTheyAreBad(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, _ := issue(t, dir, "first")
	c, err := loadCerts(certFile, keyFile, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	conf := c.server("h2")
	look := func() { c.mu.Lock(); c.looked = time.Time{}; c.mu.Unlock() } // as if a second had passed
	stamp := func(at time.Time) {
		for _, f := range []string{certFile, keyFile} {
			if err := os.Chtimes(f, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	if name, protocol := servedName(t, conf); name != "first" || protocol != "h2" {
		t.Errorf("served %s over %s", name, protocol)
	}
	issue(t, dir, "second")
	stamp(time.Now().Add(time.Minute))
	look()
	if name, _ := servedName(t, conf); name != "second" {
		t.Errorf("after the files changed served %s", name)
	}
	write(t, certFile, []byte("half a certific"))
	stamp(time.Now().Add(2 * time.Minute))
	look()
	if name, _ := servedName(t, conf); name != "second" {
		t.Errorf("with broken files served %s", name)
	}
}

func TestUnusableTLSFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, _ := issue(t, dir, "x")
	for name, files := range map[string][3]string{
		"missing":      {filepath.Join(dir, "none.pem"), keyFile, ""},
		"not a key":    {certFile, certFile, ""},
		"empty CA":     {certFile, keyFile, keyFile},
		"CA not there": {certFile, keyFile, filepath.Join(dir, "none.pem")},
	} {
		if _, err := loadCerts(files[0], files[1], files[2], slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
