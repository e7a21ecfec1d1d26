package campaign

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

// What a token signs has one reading: no byte can move between the delivery and the link.
func TestATokenForOneLinkLeadsToNoOther(t *testing.T) {
	key := []byte("a secret of thirty-two bytes, say")
	const link = "https://example.org/"
	token := sealToken(key, 7, 9, link)
	if num, row, err := openToken(key, token, link); num != 7 || row != 9 || err != nil {
		t.Fatal(num, row, err)
	}
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	payload, mac := sealed[:len(sealed)-macBytes], sealed[len(sealed)-macBytes:]
	for i := range len(link) + 1 {
		moved := base64.RawURLEncoding.EncodeToString([]byte(string(payload) + link[:i] + string(mac)))
		if _, _, err := openToken(key, moved, link[i:]); (err == nil) != (i == 0) {
			t.Errorf("with %q in the token and %q as the link: %v", link[:i], link[i:], err)
		}
	}
	for _, other := range []string{"", link + "x", link[1:]} {
		if _, _, err := openToken(key, token, other); !errors.Is(err, ErrBadToken) {
			t.Errorf("it leads to %q too: %v", other, err)
		}
	}
}

func TestATokenThatIsNoneIsRefused(t *testing.T) {
	key := []byte("key")
	payload := []byte{tokenVersion + 1, 7, 9}
	newer := base64.RawURLEncoding.EncodeToString(append(payload, tokenMAC(key, payload, "")...))
	for _, token := range []string{"", "A", "AQ", "!", strings.Repeat("A", maxToken), strings.Repeat("A", maxToken+4), newer} {
		if _, _, err := openToken(key, token, ""); !errors.Is(err, ErrBadToken) {
			t.Errorf("%q: %v", token, err)
		}
	}
}
