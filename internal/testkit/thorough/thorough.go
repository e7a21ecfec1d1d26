// Package thorough divides what tests repeat: a small part runs on each change, the whole in `make check-all`.
package thorough

import (
	"os"
	"testing"
)

// Run reports whether tests run thoroughly: with all seeds, variants and kills.
func Run() bool { return os.Getenv("GODWIT_TEST_THOROUGH") != "" }

// Rounds is how often a test repeats its work: few times on each change, all times in a thorough run.
func Rounds(few, all int) int {
	if Run() {
		return all
	}
	return few
}

// Only skips a test that is too slow for each change. Guard names the quicker test of the same behavior.
func Only(t testing.TB, guard string) {
	t.Helper()
	if !Run() {
		t.Skipf("make check-all runs it; on each change %s guards this", guard)
	}
}
