package provider

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
)

// SigningInput is the text that a token's signature covers (RFC 7515, section 5.1). head is JSON.
func SigningInput(head string, claims any) (string, error) {
	body, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encode token: %w", err)
	}
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(head)) + "." + enc(body), nil
}

// SignES256 signs a token's signing input and returns the token (RFC 7518, section 3.4). The same input always gives the same token (RFC
// 6979). The key must be on P-256.
func SignES256(key *ecdsa.PrivateKey, input string) (string, error) {
	sum := sha256.Sum256([]byte(input))
	der, err := key.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &pair); err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	var sig [64]byte
	pair.R.FillBytes(sig[:32])
	pair.S.FillBytes(sig[32:])
	return input + "." + base64.RawURLEncoding.EncodeToString(sig[:]), nil
}
