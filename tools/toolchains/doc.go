// Package toolchains has the script that says which toolchains are missing before `make test` begins, and the one that installs them on
// Debian for ./run, ./check and .ci/run.
package toolchains
