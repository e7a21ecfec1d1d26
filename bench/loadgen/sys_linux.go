package loadgen

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// clockNow reads the monotonic clock that all processes share.
func clockNow() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return time.Now().UnixNano()
	}
	return ts.Nano()
}

// precise makes sleeps of the calling thread end within microseconds.
func precise() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// sleepUntil blocks the calling thread. Timers of the Go runtime are late by up to a millisecond on an idle process,
// which is longer than the measured times.
func sleepUntil(at int64) {
	ts := unix.NsecToTimespec(at)
	for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil), unix.EINTR) {
	}
}

// shareports makes the kernel choose the local port only when it knows the peer, so that each source address has all
// ports for each server.
func shareports(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
}
