// Package thorough limits what tests repeat: a small part runs on each change, everything in `make check-all`. The Makefile also knows which parts
// have not changed since all of their tests passed.
package thorough

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Run reports whether tests run thoroughly: with all seeds, variants and kills.
func Run() bool { return os.Getenv("GODWIT_TEST_THOROUGH") != "" }

// Rounds returns how often a test repeats its work: few in tests of each change, all in a thorough run.
func Rounds(few, all int) int {
	if Run() {
		return all
	}
	return few
}

// Only skips a test that is too slow for each change. guard names the quicker test of the same behavior.
func Only(t testing.TB, guard string) {
	t.Helper()
	if !Run() {
		t.Skipf("make check-all runs it; on each change %s guards this", guard)
	}
}

// IfChanged skips a test of a part, a folder, unless a file of the part has changed since all of its tests passed. guard names the tests that run on
// each change.
func IfChanged(t testing.TB, part, guard string) {
	t.Helper()
	if slices.Contains(strings.Fields(os.Getenv("GODWIT_TEST_UNCHANGED")), part) {
		t.Skipf("runs when %s has changed, and in make check-all; on each change %s guards this", part, guard)
	}
}
