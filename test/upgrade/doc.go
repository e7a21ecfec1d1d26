// Package upgrade opens a data folder that a former release left, with the server of today, and proves that everything
// is there and goes on. The folders are committed; make_test.go made them, with the release that made.json names.
package upgrade
