// Package toolchains has the script that says which toolchains are missing before `make test` begins.
package toolchains
