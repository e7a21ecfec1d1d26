package reactor

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// joinMost is the largest size in bytes up to which head and tail are copied into one buffer before sending: sending two pieces takes the
// system longer than the copy.
const joinMost = 4 << 10

// sysSend sends head and tail without blocking. (The system calls for sockets take less time than write and read, which serve any file.)
func sysSend(fd int32, head, tail []byte) (int, error) {
	switch n := len(head) + len(tail); {
	case n == 0:
		return 0, nil
	case len(head) == 0:
		return sendOne(fd, tail)
	case len(tail) == 0:
		return sendOne(fd, head)
	case n > joinMost:
		return sysWritev(fd, [][]byte{head, tail})
	}
	buf, _ := joined.Get().(*[]byte)
	defer joined.Put(buf)
	*buf = append(append((*buf)[:0], head...), tail...)
	return sendOne(fd, *buf)
}

func sendOne(fd int32, b []byte) (int, error) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return sent(n, e)
}

// sysWritev sends pieces without blocking.
func sysWritev(fd int32, bufs [][]byte) (int, error) {
	var iov [64]unix.Iovec
	k := 0
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		iov[k].Base = &b[0]
		iov[k].SetLen(len(b))
		if k++; k == len(iov) {
			break
		}
	}
	if k == 0 {
		return 0, nil
	}
	msg := unix.Msghdr{Iov: &iov[0]}
	msg.SetIovlen(k)
	n, _, e := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return sent(n, e)
}

// sent converts the result of a system call for sending.
func sent(n uintptr, e syscall.Errno) (int, error) {
	switch {
	case e == 0:
		return int(n), nil
	case errors.Is(e, unix.EAGAIN), errors.Is(e, unix.EINTR):
		return 0, errAgain
	default:
		return 0, os.NewSyscallError("send", e)
	}
}

// receive reads from a socket without blocking.
func receive(fd int32, b []byte) (int, syscall.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), e
}
