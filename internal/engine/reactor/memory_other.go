//go:build !linux

package reactor

func machineMemory() int64 { return 0 }
