package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
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
	// MaxPayload is the longest plaintext, in bytes: with header, delimiter and tag it fills the 4,096 bytes that every push service
	// accepts.
	MaxPayload = recordSize - headBytes - 1 - tagBytes

	lastRecord = 0x02 // delimiter of the last record, before the padding
)

// constrained is the largest padded body, in bytes. Mozilla's push service passes messages for Firefox on Android on to Google's, and
// refuses longer ones with 413.
const constrained = 3052

// buckets lists the sizes of whole bodies, in bytes. Padding to them hides a message's length.
var buckets = [...]int{256, 512, 1024, 2048, constrained}

// bodySize returns the body's size for a plaintext of plain bytes: its bucket. Messages beyond the last bucket are not padded, since a push
// service may accept only the shorter body.
func bodySize(plain int) int {
	size := headBytes + plain + 1 + tagBytes
	for _, b := range buckets {
		if size <= b {
			return b
		}
	}
	return size
}

// encrypt encrypts a payload of at most MaxPayload bytes for a subscription, with a fresh key and salt, and pads it to its bucket if it
// fits into one.
func encrypt(to *subscription, plain []byte) ([]byte, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make message key: %w", err)
	}
	var salt [saltBytes]byte
	_, _ = rand.Read(salt[:]) // never fails
	return seal(to, plain, key, salt, bodySize(len(plain)))
}

// seal is encrypt with the random values and the size as arguments: RFC 8291, section 3.
func seal(to *subscription, plain []byte, key *ecdh.PrivateKey, salt [saltBytes]byte, size int) ([]byte, error) {
	secret, err := key.ECDH(to.public)
	if err != nil {
		return nil, fmt.Errorf("agree on a key: %w", err)
	}
	own := key.PublicKey().Bytes()
	cek, nonce := derive(secret, to.auth, to.p256dh, own, salt[:])
	block, err := aes.NewCipher(cek[:])
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
	record[len(plain)] = lastRecord // the rest is zero: the padding
	return gcm.Seal(body, nonce[:], record, nil), nil
}

const (
	infoKey   = "WebPush: info\x00"
	infoCEK   = "Content-Encoding: aes128gcm\x00\x01"
	infoNonce = "Content-Encoding: nonce\x00\x01"
)

// derive makes the content key and the nonce of a message: RFC 8291, section 3.4. Each of its HKDFs yields at most one block, for which
// HKDF (RFC 5869) consists of two HMACs, the second over the info and the byte 1.
func derive(secret, auth, receiver, sender, salt []byte) (cek [16]byte, nonce [12]byte) {
	var info [len(infoKey) + 2*keyBytes + 1]byte
	n := copy(info[:], infoKey)
	n += copy(info[n:], receiver)
	n += copy(info[n:], sender)
	info[n] = 1
	prk := hmac256(auth, secret)
	ikm := hmac256(prk[:], info[:n+1])
	prk = hmac256(salt, ikm[:])
	key, once := hmac256(prk[:], []byte(infoCEK)), hmac256(prk[:], []byte(infoNonce))
	return [16]byte(key[:16]), [12]byte(once[:12])
}

// hmac256 is HMAC-SHA256 (RFC 2104) with a key of at most 64 bytes over at most 160 bytes. Unlike crypto/hmac it allocates nothing, five
// times for each message.
func hmac256(key, text []byte) [sha256.Size]byte {
	var inner [sha256.BlockSize + 160]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	copy(inner[:], key)
	copy(outer[:], key)
	for i := range sha256.BlockSize {
		inner[i] ^= 0x36
		outer[i] ^= 0x5c
	}
	n := sha256.BlockSize + copy(inner[sha256.BlockSize:], text)
	sum := sha256.Sum256(inner[:n])
	copy(outer[sha256.BlockSize:], sum[:])
	return sha256.Sum256(outer[:])
}
