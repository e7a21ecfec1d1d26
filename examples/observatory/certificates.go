package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// The demonstration's names: an app, a group of it, and units in the group.
const (
	app   = "animal.observer"
	group = "region-1"
	yours = "observer-1" // the unit of the listing in the guide; the demo's own units are observer-2 and so on
)

// validity is how long certificates last. Real ones would be renewed well before.
const validity = 90 * 24 * time.Hour

// unitURI returns the URI by which a certificate names its unit.
func unitURI(unit string) string {
	return "godwit://" + app + "/" + group + "/" + group + ":" + unit
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// makeCertificates writes certificates and keys, unless they exist: the authority's ca.crt, the server's server.crt and server.key, and
// NAME.crt and NAME.key of each unit. client.crt and client.key belong to the unit that readers of the guide run.
func makeCertificates(dir string, units []string) error {
	if _, err := os.Stat(filepath.Join(dir, "client.key")); !errors.Is(err, fs.ErrNotExist) {
		return err // it is written last, so if it exists, all exist
	}
	ca, err := newAuthority(dir)
	if err != nil {
		return fmt.Errorf("make an authority: %w", err)
	}
	err = ca.issue(dir, "server", &x509.Certificate{
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	files := map[string]string{"client": yours}
	for _, u := range units {
		files[u] = u
	}
	for file, unit := range files {
		if file == "client" {
			continue
		}
		if err := ca.issueUnit(dir, file, unit); err != nil {
			return err
		}
	}
	return ca.issueUnit(dir, "client", yours)
}

func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t, err := template("Observatory demo authority")
	if err != nil {
		return nil, err
	}
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	// The authority's key stays in memory: it must not sign anything else.
	return &authority{cert, key}, writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", der)
}

func template(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity), KeyUsage: x509.KeyUsageDigitalSignature,
	}, nil
}

// issueUnit writes the certificate of a unit. Only the certificate's URI identifies the unit.
func (a *authority) issueUnit(dir, file, unit string) error {
	u, err := url.Parse(unitURI(unit))
	if err != nil {
		return fmt.Errorf("name unit %s: %w", unit, err)
	}
	return a.issue(dir, file, &x509.Certificate{URIs: []*url.URL{u}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

func (a *authority) issue(dir, name string, want *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key of %s: %w", name, err)
	}
	t, err := template(name)
	if err != nil {
		return err
	}
	t.DNSNames, t.IPAddresses, t.URIs, t.ExtKeyUsage = want.DNSNames, want.IPAddresses, want.URIs, want.ExtKeyUsage
	cert, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key of %s: %w", name, err)
	}
	if err := writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", cert); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, name+".key"), "PRIVATE KEY", private)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
