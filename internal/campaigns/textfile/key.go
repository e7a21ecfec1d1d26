package textfile

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
)

// Key returns the key in a file as PEM, if PEM can represent it. It accepts line breaks written as \n, quotes around the key, indented
// lines and DER, also in base64 without a header. For other files, it returns the result of Plain.
func Key(b []byte) string {
	if block := der(b); block != nil {
		return string(pem.EncodeToMemory(block))
	}
	s := Plain(b)
	if strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[") {
		return s // a JSON file, in which \n is part of the syntax
	}
	bare := strings.Trim(s, "\"'")
	if strings.Contains(bare, "-----BEGIN ") {
		return armour(bare)
	}
	packed := strings.Join(strings.Fields(strings.NewReplacer(`\r`, " ", `\n`, " ").Replace(bare)), "")
	packed = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(packed, "="))
	if raw, err := base64.RawStdEncoding.DecodeString(packed); err == nil {
		if block := der(raw); block != nil {
			return string(pem.EncodeToMemory(block))
		}
	}
	return s
}

// armour converts the header and footer lines of PEM to the standard form. It does not change the text between them.
func armour(s string) string {
	s = strings.NewReplacer(`\r\n`, "\n", `\n`, "\n", `\r`, "\n").Replace(s)
	s = strings.ReplaceAll(strings.ReplaceAll(s, "-----BEGIN ", "\n-----BEGIN "), "-----END ", "\n-----END ")
	var b strings.Builder
	for line := range strings.Lines(s) {
		line = strings.Trim(strings.TrimSpace(line), "\"'")
		if head, rest, ok := strings.Cut(strings.TrimPrefix(line, "-----"), "-----"); ok && strings.HasPrefix(line, "-----") {
			b.WriteString("-----" + head + "-----\n")
			line = strings.TrimSpace(rest)
		}
		if line != "" {
			// If the key was on one line, spaces stand for the line breaks.
			b.WriteString(strings.Join(strings.Fields(line), "\n") + "\n")
		}
	}
	text := b.String()
	if block, _ := pem.Decode([]byte(text)); block == nil {
		return strings.TrimSpace(s) // the key has headers, or is damaged, which the PEM decoder reports
	}
	return text
}

// der determines which kind of key the bytes are; nil: none.
func der(b []byte) *pem.Block {
	if !bytes.HasPrefix(b, []byte{0x30}) { // every key is an ASN.1 sequence
		return nil
	}
	for kind, parse := range map[string]func([]byte) error{
		"PRIVATE KEY":     func(b []byte) error { _, err := x509.ParsePKCS8PrivateKey(b); return err },
		"EC PRIVATE KEY":  func(b []byte) error { _, err := x509.ParseECPrivateKey(b); return err },
		"RSA PRIVATE KEY": func(b []byte) error { _, err := x509.ParsePKCS1PrivateKey(b); return err },
		"PUBLIC KEY":      func(b []byte) error { _, err := x509.ParsePKIXPublicKey(b); return err },
		"RSA PUBLIC KEY":  func(b []byte) error { _, err := x509.ParsePKCS1PublicKey(b); return err },
		"CERTIFICATE":     func(b []byte) error { _, err := x509.ParseCertificate(b); return err },
	} {
		if parse(b) == nil {
			return &pem.Block{Type: kind, Bytes: b}
		}
	}
	return nil
}
