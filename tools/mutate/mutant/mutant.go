// Package mutant is the switch behind which drawn mutants are compiled: see tools/mutate.
package mutant

import (
	"os"
	"strconv"
)

// Variable names the mutant that a test binary is to have; without it the code is as it was written.
const Variable = "GODWIT_MUTANT"

var chosen, _ = strconv.Atoi(os.Getenv(Variable))

// Is reports whether the process has the mutant of this number. Numbers begin with 1.
func Is(n int) bool { return n == chosen }

// Text is a text, or what the mutant has in its place.
func Text(n int, text, other string) string {
	if Is(n) {
		return other
	}
	return text
}
