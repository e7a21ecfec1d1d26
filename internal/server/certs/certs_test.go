package certs

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/certs/certstest"
)

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
	client := tls.Client(ours, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) // the test checks the certificate itself
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.HandshakeContext(ctx); err != nil {
		t.Fatal(err)
	}
	state := client.ConnectionState()
	ours.Close()
	<-done
	return state.PeerCertificates[0].Subject.CommonName, state.NegotiatedProtocol
}

func TestCertificateIsReloadedOnChangeAndKeptIfFilesAreBad(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, _ := certstest.Issue(t, dir, "first")
	c, err := Load(certFile, keyFile, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	conf := c.Server("h2")
	look := func() { c.mu.Lock(); c.looked = time.Time{}; c.mu.Unlock() } // look makes the next handshake check the files, as if a second had passed
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
	certstest.Issue(t, dir, "second")
	stamp(time.Now().Add(time.Minute))
	look()
	if name, _ := servedName(t, conf); name != "second" {
		t.Errorf("after the files changed served %s", name)
	}
	if err := os.WriteFile(certFile, []byte("half a certific"), 0o600); err != nil {
		t.Fatal(err)
	}
	stamp(time.Now().Add(2 * time.Minute))
	look()
	if name, _ := servedName(t, conf); name != "second" {
		t.Errorf("with broken files served %s", name)
	}
}

func TestUnusableTLSFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, _ := certstest.Issue(t, dir, "x")
	for name, files := range map[string][3]string{
		"missing":      {filepath.Join(dir, "none.pem"), keyFile, ""},
		"not a key":    {certFile, certFile, ""},
		"empty CA":     {certFile, keyFile, keyFile},
		"CA not there": {certFile, keyFile, filepath.Join(dir, "none.pem")},
	} {
		if _, err := Load(files[0], files[1], files[2], slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
