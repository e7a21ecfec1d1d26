package textfile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"strings"
	"testing"
)

func TestKeysAreReadInTheFormsThatPeopleHave(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sec1, _ := x509.MarshalECPrivateKey(ec)
	pkcs8, _ := x509.MarshalPKCS8PrivateKey(ec)
	public, _ := x509.MarshalPKIXPublicKey(&long.PublicKey)
	for kind, der := range map[string][]byte{
		"EC PRIVATE KEY": sec1, "PRIVATE KEY": pkcs8, "RSA PRIVATE KEY": x509.MarshalPKCS1PrivateKey(long), "PUBLIC KEY": public, "RSA PUBLIC KEY": x509.MarshalPKCS1PublicKey(&long.PublicKey),
	} {
		text := string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
		base := base64.StdEncoding.EncodeToString(der)
		for name, file := range map[string]string{
			"as it is": text, "with a mark": "\ufeff" + text, "with CRLF": strings.ReplaceAll(text, "\n", "\r\n"), "with a mark and CRLF": "\ufeff" + strings.ReplaceAll(text, "\n", "\r\n"), "with CR": strings.ReplaceAll(text, "\n", "\r"),
			"line breaks written out": strings.ReplaceAll(text, "\n", `\n`), "CRLF written out": strings.ReplaceAll(text, "\n", `\r\n`), "in quotes": `"` + strings.ReplaceAll(text, "\n", `\n`) + `"`,
			"spaces for line breaks": strings.ReplaceAll(strings.TrimSpace(text), "\n", " "), "indented": "  " + strings.ReplaceAll(text, "\n", "\n  "),
			"UTF-16": utf16le("\ufeff" + text), "without a line break at the end": strings.TrimSpace(text), "empty lines before": "\n\n" + text,
			"DER": string(der), "base64 DER": base, "base64 DER in lines": base[:64] + "\r\n" + base[64:] + "\r\n", "base64url DER": base64.RawURLEncoding.EncodeToString(der), "base64 DER with a mark": "\ufeff" + base + "\n",
		} {
			if got := Key([]byte(file)); got != text {
				t.Errorf("%s, %s:\n%s", kind, name, got)
			}
		}
	}
}

func utf16le(s string) string {
	var b strings.Builder
	for _, c := range s {
		b.Write([]byte{byte(c), byte(c >> 8)})
	}
	return b.String()
}

func TestFilesThatAreNoKeyStayUnchanged(t *testing.T) {
	for file, want := range map[string]string{
		"123:ABC-def\r\n": "123:ABC-def", "\ufeffsecret ": "secret", `"quoted"`: `"quoted"`, `{"private_key":"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"}`: `{"private_key":"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"}`,
		"MDEyMzQ1Njc4OQ==": "MDEyMzQ1Njc4OQ==", "": "", "two\r\nlines": "two\nlines", "\xff\xfe\x00": "\xff\xfe\x00",
	} {
		if got := Key([]byte(file)); got != want {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
}

func TestCertificatesKeepAllTheirBlocks(t *testing.T) {
	const block = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	if got := Key([]byte("\ufeff" + strings.ReplaceAll(block+"\n"+block, "\n", "\r\n"))); got != block+block {
		t.Errorf("%q", got)
	}
}

func TestAMarkInTheMiddleIsText(t *testing.T) {
	in, err := Open(strings.NewReader("a\ufeffb"), "utf-8")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(in); err != nil || string(b) != "a\ufeffb" {
		t.Errorf("%q, %v", b, err)
	}
}
