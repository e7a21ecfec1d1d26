//go:build unix && !linux

package reactor

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// sysSend sends head and tail without blocking.
func sysSend(fd int32, head, tail []byte) (int, error) { return sysWritev(fd, [][]byte{head, tail}) }

// sysWritev sends pieces without blocking, one system call each.
func sysWritev(fd int32, bufs [][]byte) (int, error) {
	sent := 0
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		n, err := unix.Write(int(fd), b)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			n = 0
		case err != nil:
			return sent, os.NewSyscallError("write", err)
		}
		sent += n
		if n < len(b) {
			break
		}
	}
	if sent == 0 {
		return 0, errAgain
	}
	return sent, nil
}
