package app

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/config"
)

func TestDurationsInJSONLogsAreText(t *testing.T) {
	var out bytes.Buffer
	c := config.Default()
	NewLogger(c, &out).Info("waits", "after", 90*time.Second, "grace", c.Grace, "took_ms", 7)
	if got := out.String(); !strings.Contains(got, `"after":"1m30s","grace":"10s","took_ms":7`) {
		t.Errorf("log has %s", got)
	}
}
