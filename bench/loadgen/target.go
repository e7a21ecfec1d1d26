package loadgen

import (
	"crypto/tls"
	"hash/fnv"
)

// Target is a server.
type Target struct {
	HTTP string `json:"http"` // host:port for HTTP; for another program, the address it listens on
	GRPC string `json:"grpc"`
	MQTT string `json:"mqtt,omitempty"` // of Godwit; another broker listens at HTTP
	QUIC string `json:"quic,omitempty"`
	TLS  bool   `json:"tls"`
	Key  string `json:"key"` // API key for publishing
}

func (t Target) addr(transport string) string {
	if transport == GRPC || transport == Nammayatri {
		return t.GRPC
	}
	if transport == QUIC {
		return t.QUIC
	}
	if transport == MQTT && t.MQTT != "" {
		return t.MQTT
	}
	return t.HTTP
}

// clientTLS returns a configuration that accepts any certificate, because the measured server makes its own.
func clientTLS(t Target, transport string) *tls.Config {
	if !t.TLS {
		return nil
	}
	protocol := "http/1.1"
	if transport == GRPC {
		protocol = "h2"
	}
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS12}
}

// TargetOf returns the number of the server that a recipient belongs to, by the recipient's name.
func TargetOf(prefix string, recipient, targets int) int {
	if targets <= 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write(appendRecipient(nil, prefix, recipient)) // a hash takes everything
	return int(h.Sum32() % uint32(targets))
}
