package logs

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/config"
)

func TestDurationsInJSONLogsAreText(t *testing.T) {
	var out bytes.Buffer
	c := config.Default()
	New(c, &out).Info("waits", "after", 90*time.Second, "grace", c.Grace, "took_ms", 7)
	if got := out.String(); !strings.Contains(got, `"after":"1m30s","grace":"10s","took_ms":7`) {
		t.Errorf("log has %s", got)
	}
}

// TestEveryRecordOfTheLogIsOneVisibleLine logs texts that may come from a client or another server.
func TestEveryRecordOfTheLogIsOneVisibleLine(t *testing.T) {
	const hostile = "a\nlevel=ERROR msg=forged\r\x1b[2J\u009b2J\u202eb\u2066c\x00\x7f"
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		c := config.Default()
		c.LogFormat = format
		New(c, &out).Warn("refused", "device", hostile, "error", errors.New(hostile))
		got, ended := strings.CutSuffix(out.String(), "\n")
		if !ended || strings.ContainsAny(got, "\n\r\x00\x1b\u009b\u202e\u2066") {
			t.Errorf("%s: %q", format, got)
		}
	}
}
