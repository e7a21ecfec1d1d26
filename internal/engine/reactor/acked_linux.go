package reactor

import "golang.org/x/sys/unix"

// acked asks the kernel which bytes the peer has acknowledged: Unacked counts segments that are in flight, Notsent_bytes
// the bytes that wait for the peer's window.
func acked(fd int) (count uint32, all bool) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, true // no TCP, as in tests over Unix sockets
	}
	return uint32(info.Bytes_acked), info.Unacked == 0 && info.Notsent_bytes == 0 // a change is what counts
}

// States of a TCP connection whose peer has closed it, as TCP_INFO gives them: the peer broke it off, or closed it orderly.
const (
	tcpClosed    = 7
	tcpCloseWait = 8
)

// peerLeft reports a connection that the peer has closed, and lost bytes: those that were written and not acknowledged. A
// closed peer acknowledges nothing. It resets the connection when late bytes arrive.
func peerLeft(fd int) (closed, lost bool) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return false, false
	}
	switch info.State {
	case tcpClosed:
		return true, true
	case tcpCloseWait:
		return true, info.Unacked > 0 || info.Notsent_bytes > 0
	}
	return false, false
}

func (c *Conn) sysAcked() (count uint32, all bool) { return acked(int(c.fd)) }
