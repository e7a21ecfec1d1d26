// Package mutant is the switch behind which drawn mutants are compiled: see tools/mutate.
package mutant

import (
	"os"
	"strconv"
	"sync/atomic"
)

const (
	// Variable names the mutant that a test binary is to have; without it the code is as it was written.
	Variable = "GODWIT_MUTANT"
	// ReachedVariable names a file for the numbers of the mutants whose code runs. It begins like Variable.
	ReachedVariable = Variable + "_REACHED"
	// Most is the highest number of a mutant.
	Most = 1<<14 - 1
)

var (
	chosen, _ = strconv.Atoi(os.Getenv(Variable))
	reached   = openReached()
	seen      [Most + 1]atomic.Bool
)

func openReached() *os.File {
	name := os.Getenv(ReachedVariable)
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	return f
}

// Is reports whether the process has the mutant of this number. Numbers begin with 1.
func Is(n int) bool {
	if reached != nil && !seen[n].Load() && !seen[n].Swap(true) {
		_, _ = reached.WriteString(strconv.Itoa(n) + "\n")
	}
	return n == chosen
}

// Text returns a text, or the mutant's replacement for it.
func Text(n int, text, other string) string {
	if Is(n) {
		return other
	}
	return text
}
