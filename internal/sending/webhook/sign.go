package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Standard Webhooks (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
const (
	secretPrefix = "whsec_"
	secretBytes  = 32 // length of a generated secret; the standard allows 24 to 64
	minSecret    = 24
	maxSecret    = 64
	maxSecrets   = 4 // a rotation needs two; more are probably a mistake
)

// Secrets sign a hook's messages. Each secret adds a signature, so that a receiver can change from one to the next.
type Secrets [][]byte

// NewSecret makes a secret.
func NewSecret() string {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(b)
}

// ParseSecrets reads secrets in the form of the standard.
func ParseSecrets(list []string) (Secrets, error) {
	if len(list) == 0 {
		return nil, errors.New("there is no secret")
	}
	if len(list) > maxSecrets {
		return nil, fmt.Errorf("has %d secrets; at most %d are allowed", len(list), maxSecrets)
	}
	secrets := make(Secrets, 0, len(list))
	for _, text := range list {
		encoded, ok := strings.CutPrefix(text, secretPrefix)
		b, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(b) < minSecret || len(b) > maxSecret {
			return nil, fmt.Errorf("a secret is %s and %d to %d bytes in base64", secretPrefix, minSecret, maxSecret)
		}
		secrets = append(secrets, b)
	}
	return secrets, nil
}

// Sign returns the value of a message's webhook-signature header.
func (ss Secrets) Sign(id string, at time.Time, body []byte) string {
	var b strings.Builder
	for i, secret := range ss {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString("v1,")
		b.WriteString(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return b.String()
}
