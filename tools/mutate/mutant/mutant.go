// Package mutant is the switch between the compiled mutants: see tools/mutate.
package mutant

import (
	"os"
	"strconv"
	"sync/atomic"
)

const (
	// Variable is the environment variable with the number of the active mutant; without it the code is unchanged.
	Variable = "GODWIT_MUTANT"
	// ReachedVariable is the environment variable with a file for the numbers of the mutants whose code runs. Its name begins with
	// Variable.
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

// Is reports whether the mutant with this number is active in the process. Numbers begin with 1.
func Is(n int) bool {
	if reached != nil && !seen[n].Load() && !seen[n].Swap(true) {
		_, _ = reached.WriteString(strconv.Itoa(n) + "\n")
	}
	return n == chosen
}

// Text returns text, or other if the mutant with number n is active.
func Text(n int, text, other string) string {
	if Is(n) {
		return other
	}
	return text
}
