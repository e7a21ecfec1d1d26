package core

import (
	"bytes"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/server/app/logs"
	"godwit.dev/godwit/internal/server/config"
)

func TestBecomingFullAndFreeAgainIsOneLineEach(t *testing.T) {
	var out bytes.Buffer
	c := config.Default()
	log := logs.New(c, &out)
	full := false
	for _, now := range []bool{false, true, true, true, false, false} {
		full = tellSpace(t.Context(), log, full, mailbox.Stats{Full: now, FreeBytes: 5 << 20}, c.MinFree)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "publishes are refused") || !strings.Contains(lines[0], `"free":"5MB","min_free":"256MB"`) || !strings.Contains(lines[1], "has space again") {
		t.Errorf("log has %q", lines)
	}
}
