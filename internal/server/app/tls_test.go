package app

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/server/certs/certstest"
	"godwit.dev/godwit/internal/server/config"
)

func TestClientCertificateLetsItsRecipientInOnEveryListener(t *testing.T) {
	for _, engine := range []string{"reactor", "std"} {
		t.Run(engine, func(t *testing.T) {
			serverDir, clientDir := t.TempDir(), t.TempDir()
			certFile, keyFile, trust := certstest.Issue(t, serverDir, "server")
			clientCert, clientKey, _ := certstest.Issue(t, clientDir, "client", "godwit://rides/region-1/region-1:observer-1")
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
			shown, err := tls.LoadX509KeyPair(certFile, keyFile)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := figure(t, a, "godwit_tls_certificate_expiry_timestamp_seconds"), shown.Leaf.NotAfter.Unix(); got != float64(want) {
				t.Errorf("the figures say that the certificate ends at %v, want %v", got, want)
			}
		})
	}
}

// figure returns the value of the first gauge of a name on the server's metrics page.
func figure(t *testing.T, a *App, name string) float64 {
	t.Helper()
	families, err := a.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// welcomedByWebSocket sends an empty hello and returns the answer.
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
