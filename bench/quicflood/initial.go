// Package quicflood floods a QUIC listener with the beginnings of handshakes that nobody completes, and with packets that make no sense.
package quicflood

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"

	"github.com/quic-go/quic-go/quicvarint"
)

const (
	packetBytes = 1200 // least bytes of a client's first datagram (RFC 9000, section 14.1)
	idBytes     = 8
	tagBytes    = 16 // of the AEAD
	sampleBytes = 16 // of the header protection
)

// Salt of the keys of first packets, and the labels of their keys (RFC 9001, section 5.2).
var salt = []byte{0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a}

// clientHello returns the first message of a handshake.
func clientHello(ctx context.Context) ([]byte, error) {
	c := tls.QUICClient(&tls.QUICConfig{TLSConfig: &tls.Config{
		ServerName: "localhost", MinVersion: tls.VersionTLS13, NextProtos: []string{"h3"}, CurvePreferences: []tls.CurveID{tls.X25519}, // fits one packet
	}})
	defer c.Close()
	c.SetTransportParameters(parameters())
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	for {
		switch e := c.NextEvent(); e.Kind {
		case tls.QUICWriteData:
			return append([]byte(nil), e.Data...), nil
		case tls.QUICNoEvent:
			return nil, errors.New("TLS has no first message")
		}
	}
}

// parameters are a client's transport parameters (RFC 9000, section 18): the connection ID that initial uses, and some windows.
func parameters() (b []byte) {
	for _, p := range []struct{ id, value uint64 }{{0x04, 1 << 20}, {0x05, 1 << 18}, {0x06, 1 << 18}, {0x07, 1 << 18}, {0x08, 100}, {0x09, 100}} {
		b = quicvarint.Append(b, p.id)
		b = quicvarint.Append(b, uint64(quicvarint.Len(p.value)))
		b = quicvarint.Append(b, p.value)
	}
	return append(b, 0x0f, 0) // initial_source_connection_id, empty
}

// initial returns a client's first packet, for a connection ID of the client's choice. It is what a server takes for the begin of a
// handshake.
func initial(hello, token []byte) ([]byte, error) {
	id := make([]byte, idBytes)
	_, _ = rand.Read(id) // never fails
	head := append([]byte{0xc3, 0, 0, 0, 1, idBytes}, id...)
	head = append(head, 0) // the client's own ID is empty
	head = append(quicvarint.Append(head, uint64(len(token))), token...)
	const numberBytes = 4
	sealed := packetBytes - len(head) - 2 // behind the length, which takes two bytes
	head = quicvarint.AppendWithLen(head, uint64(sealed), 2)
	frames := append(quicvarint.Append([]byte{0x06, 0}, uint64(len(hello))), hello...) // CRYPTO
	room := sealed - numberBytes - tagBytes
	if len(frames) > room {
		return nil, errors.New("the first message does not fit a packet")
	}
	frames = append(frames, make([]byte, room-len(frames))...) // PADDING
	return protect(head, frames, id)
}

// protect encrypts a packet, whose number is 0, and its header (RFC 9001, section 5).
func protect(head, frames, id []byte) ([]byte, error) {
	secret, err := hkdf.Extract(sha256.New, id, salt)
	if err != nil {
		return nil, err
	}
	var keys [3][]byte
	if secret, err = expand(secret, "client in", sha256.Size); err != nil {
		return nil, err
	}
	for i, label := range []string{"quic key", "quic iv", "quic hp"} {
		if keys[i], err = expand(secret, label, []int{16, 12, 16}[i]); err != nil {
			return nil, err
		}
	}
	block, err := aes.NewCipher(keys[0])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	at := len(head) // of the number, four bytes of zero
	head = append(head, 0, 0, 0, 0)
	packet := aead.Seal(head, keys[1], frames, head)
	mask := make([]byte, aes.BlockSize)
	cover, err := aes.NewCipher(keys[2])
	if err != nil {
		return nil, err
	}
	cover.Encrypt(mask, packet[at+4:at+4+sampleBytes])
	packet[0] ^= mask[0] & 0x0f
	for i := range 4 {
		packet[at+i] ^= mask[1+i]
	}
	return packet, nil
}

// expand is HKDF-Expand-Label of TLS 1.3 without a context.
func expand(secret []byte, label string, n int) ([]byte, error) {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(n)) // at most 32
	info = append(append(info, byte(len(label))), label...)
	return hkdf.Expand(sha256.New, secret, string(append(info, 0)), n)
}
