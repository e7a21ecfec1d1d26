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
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/config"
)

// issue writes a self-signed certificate of that name and its key into dir and returns the pool that trusts it.
func issue(t *testing.T, dir, name string, uris ...string) (certFile, keyFile string, pool *x509.CertPool) {
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
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
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

func TestClientCertificateLetsItsRecipientInOnEveryListener(t *testing.T) {
	for _, engine := range []string{"reactor", "std"} {
		t.Run(engine, func(t *testing.T) {
			serverDir, clientDir := t.TempDir(), t.TempDir()
			certFile, keyFile, trust := issue(t, serverDir, "server")
			clientCert, clientKey, _ := issue(t, clientDir, "client", "godwit://rides/region-1/region-1:observer-1")
			cfg := config.Default()
			cfg.Data, cfg.HTTPAddr, cfg.GRPCAddr, cfg.MinFree, cfg.GRPCEngine = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", 1<<20, engine
			cfg.TLSCert, cfg.TLSKey, cfg.TLSClientCA = certFile, keyFile, clientCert
			cfg.BootstrapApp = "rides"
			a, err := Start(t.Context(), cfg, Options{Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := a.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			pair, err := tls.LoadX509KeyPair(clientCert, clientKey)
			if err != nil {
				t.Fatal(err)
			}
			conf := &tls.Config{RootCAs: trust, Certificates: []tls.Certificate{pair}}
			if got := welcomedByWebSocket(t, a.Addresses().HTTP, conf); !strings.Contains(got, `"recipient":"region-1:observer-1"`) {
				t.Errorf("WebSocket: %s", got)
			}
			f := welcomedByGRPC(t, a.Addresses().GRPC, conf)
			if w := f.GetWelcome(); w.GetRecipient() != "region-1:observer-1" || w.GetApp() != "rides" {
				t.Errorf("gRPC: %v", f)
			}
			if got := welcomedByWebSocket(t, a.Addresses().HTTP, &tls.Config{RootCAs: trust}); !strings.Contains(got, "unauthenticated") {
				t.Errorf("without a certificate: %s", got)
			}
		})
	}
}

// welcomedByWebSocket says an empty hello and returns the answer.
func welcomedByWebSocket(t *testing.T, addr string, conf *tls.Config) string {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: conf}
	defer transport.CloseIdleConnections()
	ws, _, err := websocket.Dial(t.Context(), "wss://"+addr+"/v1/connect", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(`{"hello":{}}`)); err != nil {
		t.Fatal(err)
	}
	_, b, err := ws.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func welcomedByGRPC(t *testing.T, addr string, conf *tls.Config) *godwitpb.ServerFrame {
	t.Helper()
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(conf)))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := godwitpb.NewClientClient(cc).Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&godwitpb.ClientFrame{Frame: &godwitpb.ClientFrame_Hello{Hello: &godwitpb.Hello{}}}); err != nil {
		t.Fatal(err)
	}
	f, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFailureOfAPartStopsTheServerAndIsReported(t *testing.T) {
	cfg := config.Default()
	cfg.Data, cfg.HTTPAddr, cfg.GRPCAddr, cfg.Dev, cfg.MinFree = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", true, 1<<20
	a, err := Start(t.Context(), cfg, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	a.fail(errors.New("the disk did not confirm a write"))
	a.fail(errors.New("a consequence"))
	if err := a.Run(t.Context()); err == nil || err.Error() != "the disk did not confirm a write" {
		t.Errorf("Run returned %v", err)
	}
	if _, err := net.DialTimeout("tcp", a.Addresses().HTTP, time.Second); err == nil {
		t.Error("it still listens")
	}
}
