// Package archtest tests the structure of the code: which layer may import which, that every package has a doc comment, how long a file may
// be. It contains only tests.
package archtest
