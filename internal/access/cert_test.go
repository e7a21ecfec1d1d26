package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
)

func TestOnlyAVerifiedCertificateHasAURI(t *testing.T) {
	const uri = "godwit://animal.observer/region-1/region-1:observer-1"
	caKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	caDER := must(x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey))
	leafKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs: []*url.URL{must(url.Parse("https://elsewhere.example/")), must(url.Parse(uri))},
	}
	leafDER := must(x509.CreateCertificate(rand.Reader, leaf, must(x509.ParseCertificate(caDER)), leafKey.Public(), caKey))
	roots := x509.NewCertPool()
	roots.AddCert(must(x509.ParseCertificate(caDER)))

	for name, c := range map[string]struct {
		auth tls.ClientAuthType
		cert bool
		want string
	}{
		"verified":       {tls.VerifyClientCertIfGiven, true, uri},
		"none":           {tls.VerifyClientCertIfGiven, false, ""},
		"never verified": {tls.RequireAnyClientCert, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = access.CertURI(r.TLS) }))
			server.TLS = &tls.Config{ClientAuth: c.auth, ClientCAs: roots, MinVersion: tls.VersionTLS12}
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			if c.cert {
				client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}}
			}
			resp, err := client.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := access.CertURI(nil); got != "" {
		t.Errorf("without TLS: %q", got)
	}
}
