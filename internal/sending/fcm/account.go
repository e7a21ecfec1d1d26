package fcm

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/campaigns/textfile"
)

const (
	// defaultTokenURI is where Google's service accounts get their tokens, unless the file names another URL.
	defaultTokenURI = "https://oauth2.googleapis.com/token"
	minKeyBits      = 2048 // Google makes keys of 2,048 bits
)

// projectForm matches a project's id, which becomes a part of the URL.
var projectForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.:-]{0,61}[a-z0-9])?$`) })

// Account is the service account of a project: the checked content of Google's JSON file.
type Account struct {
	Project string // id of the Firebase project
	Email   string

	keyID, tokenURI, key string
}

// Format hides the key from every verb of fmt.
func (a *Account) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "service account "+a.Email) }

// ParseAccount parses a service account's JSON file. Its errors name the fault and contain nothing of the file.
func ParseAccount(text []byte, targets urlguard.Targets) (*Account, error) {
	var f struct {
		Type     string          `json:"type"`
		Project  string          `json:"project_id"`
		Email    string          `json:"client_email"`
		KeyID    string          `json:"private_key_id"`
		Key      string          `json:"private_key"`
		TokenURI string          `json:"token_uri"`
		OfAnApp  json.RawMessage `json:"project_info"`
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	text = []byte(textfile.Plain(text))
	switch err := json.Unmarshal(text, &f); {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("is not valid JSON (at byte %d of %d): give it the whole file of the service account", syntax.Offset, len(text))
	case errors.As(err, &kind) && kind.Field != "":
		return nil, fmt.Errorf("%s is not a text", kind.Field)
	case err != nil:
		return nil, errors.New("is not a JSON object")
	case len(f.OfAnApp) > 0:
		return nil, errors.New("is google-services.json, which belongs into the app; make a private key under Project settings, Service accounts")
	case f.Type != "service_account":
		return nil, errors.New(`has no "type":"service_account": it is another kind of file`)
	case f.Email == "":
		return nil, errors.New("has no client_email")
	case !projectForm().MatchString(f.Project):
		return nil, errors.New("has no project_id, or one that is not like my-project-123")
	}
	f.Key = textfile.Key([]byte(f.Key))
	if err := checkKey(f.Key); err != nil {
		return nil, err
	}
	if f.TokenURI == "" {
		f.TokenURI = defaultTokenURI
	}
	if err := targets.CheckURL(f.TokenURI); err != nil {
		return nil, fmt.Errorf("token_uri %w", err)
	}
	return &Account{Project: f.Project, Email: f.Email, keyID: f.KeyID, tokenURI: f.TokenURI, key: f.Key}, nil
}

// checkKey returns the fault of a private key when the settings are made, not when the first message is sent.
func checkKey(text string) error {
	if text == "" {
		return errors.New("has no private_key")
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return errors.New("private_key is not PEM; it begins with -----BEGIN PRIVATE KEY----- and has line breaks written as \\n")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if key, err = x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
			return errors.New("private_key cannot be read: it is cut off or altered")
		}
	}
	private, ok := key.(*rsa.PrivateKey)
	switch {
	case !ok:
		return errors.New("private_key is not an RSA key")
	case private.N.BitLen() < minKeyBits:
		return fmt.Errorf("private_key has %d bits; at least %d are needed", private.N.BitLen(), minKeyBits)
	}
	return nil
}
