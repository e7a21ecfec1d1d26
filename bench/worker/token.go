package worker

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
)

// LeastToken is the least length of a token, in characters. A token must be random, because its guesses can be compared with the run's
// certificate without limit; NewToken makes tokens of 128 bits.
const LeastToken = 20

// NewToken returns a random token.
func NewToken() string { return rand.Text() }

// The two sides of a connection. Each derives both keys from the token: its own, and the one that it expects of the other. So the token
// itself is never sent.
const (
	sideRun    = "run"
	sideWorker = "worker"
)

var errStranger = errors.New("the other side has another token")

// tlsConfig returns the configuration of one side.
func tlsConfig(token, own, other string) (*tls.Config, error) {
	if len(token) < LeastToken {
		return nil, fmt.Errorf("a token has at least %d characters, this one %d", LeastToken, len(token))
	}
	key, err := keyOf(token, own)
	if err != nil {
		return nil, err
	}
	peer, err := keyOf(token, other)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, ClientAuth: tls.RequireAnyClientCert,
		Certificates:       []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
		InsecureSkipVerify: true, // the key is compared instead of a name
		VerifyConnection: func(s tls.ConnectionState) error {
			if got, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !got.Equal(peer.Public()) {
				return errStranger
			}
			return nil
		},
	}, nil
}

func keyOf(token, side string) (ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, []byte(token), nil, "godwit bench "+side, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive a key from the token: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
