//go:build !linux

package loadgen

import "time"

func clockNow() int64 { return time.Now().UnixNano() }

func precise() {}

func sleepUntil(at int64) { time.Sleep(time.Duration(at - Now())) }

func shareports(uintptr) error { return nil }
