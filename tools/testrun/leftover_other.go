//go:build !linux

package main

import "time"

// Only Linux tells a process what was left below it.
func adopt() error { return nil }

func reportLeftover(*lines, time.Duration) error { return nil }
