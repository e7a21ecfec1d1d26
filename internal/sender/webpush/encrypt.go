package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Sizes of the aes128gcm content coding (RFC 8188) as Web Push uses it (RFC 8291): one record, whose key id is the
// server's public key.
const (
	recordSize = 4096
	saltBytes  = 16
	keyBytes   = 65 // an uncompressed P-256 point
	headBytes  = saltBytes + 4 + 1 + keyBytes
	tagBytes   = 16
	// MaxPayload is the longest plaintext: with header, delimiter and tag it fills the 4,096 bytes that every push
	// service takes.
	MaxPayload = recordSize - headBytes - 1 - tagBytes

	lastRecord = 0x02 // delimiter of the last record, before the padding
)

// buckets are the sizes of whole bodies. Padding to them hides how long a message is.
var buckets = [...]int{256, 512, 1024, 2048, recordSize}

// bodySize is the bucket of a plaintext.
func bodySize(plain int) int {
	for _, b := range buckets {
		if headBytes+plain+1+tagBytes <= b {
			return b
		}
	}
	return recordSize
}

// encrypt encrypts a payload of at most MaxPayload bytes for a subscription, with a key and a salt of its own, padded
// to its bucket.
func encrypt(to *subscription, plain []byte) ([]byte, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make message key: %w", err)
	}
	var salt [saltBytes]byte
	_, _ = rand.Read(salt[:]) // never fails
	return seal(to, plain, key, salt, bodySize(len(plain)))
}

// seal is encrypt with everything random given: RFC 8291, section 3.
func seal(to *subscription, plain []byte, key *ecdh.PrivateKey, salt [saltBytes]byte, size int) ([]byte, error) {
	secret, err := key.ECDH(to.public)
	if err != nil {
		return nil, fmt.Errorf("agree on a key: %w", err)
	}
	own := key.PublicKey().Bytes()
	info := make([]byte, 0, 144)
	info = append(append(append(info, "WebPush: info\x00"...), to.p256dh...), own...)
	ikm, err := hkdf.Key(sha256.New, secret, to.auth, string(info), 32)
	if err != nil {
		return nil, fmt.Errorf("derive the input key: %w", err)
	}
	prk, err := hkdf.Extract(sha256.New, ikm, salt[:])
	if err != nil {
		return nil, fmt.Errorf("extract the pseudorandom key: %w", err)
	}
	cek, err := hkdf.Expand(sha256.New, prk, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, fmt.Errorf("derive the content key: %w", err)
	}
	nonce, err := hkdf.Expand(sha256.New, prk, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, fmt.Errorf("derive the nonce: %w", err)
	}
	block, err := aes.NewCipher(cek)
	if err != nil {
		return nil, fmt.Errorf("make the cipher: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make the cipher: %w", err)
	}
	body := make([]byte, headBytes, max(size, headBytes+len(plain)+1+tagBytes))
	copy(body, salt[:])
	binary.BigEndian.PutUint32(body[saltBytes:], recordSize)
	body[saltBytes+4] = keyBytes
	copy(body[saltBytes+5:], own)
	record := body[headBytes : cap(body)-tagBytes]
	copy(record, plain)
	record[len(plain)] = lastRecord // what follows is zero: the padding
	return gcm.Seal(body, nonce, record, nil), nil
}
