package faults

import (
	"encoding/json"
	"strings"
	"testing"
)

// secret finds the key in the output of `godwit app create --json`.
func secret(t *testing.T, out string) string {
	t.Helper()
	var created struct{ Key, APIKey, Secret string }
	// Beside the key it says that it has made a data folder.
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&created); err != nil {
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
