// Package archtest holds the tests that keep the shape of the code: which layer may import which, that every package
// says what it is for, how long a file may be. It has no code of its own.
package archtest
