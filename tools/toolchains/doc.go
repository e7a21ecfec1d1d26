// Package toolchains has the script that reports missing toolchains before `make test` begins, and the script that installs them on Debian
// for ./run, ./check and .ci/run.
package toolchains
