// Package archtest holds the tests of the code's structure: which layer may import which, that every package has a doc
// comment, how long a file may be. It has no code of its own.
package archtest
