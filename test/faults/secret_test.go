package faults

import (
	"encoding/json"
	"testing"
)

// secret finds the key in what `godwit app create --json` printed.
func secret(t *testing.T, out string) string {
	t.Helper()
	var created struct{ Key, APIKey, Secret string }
	if err := json.Unmarshal([]byte(out), &created); err != nil {
		t.Fatalf("app create printed %q: %v", out, err)
	}
	for _, s := range []string{created.Key, created.APIKey, created.Secret} {
		if s != "" {
			return s
		}
	}
	t.Fatalf("app create printed no key: %s", out)
	return ""
}
