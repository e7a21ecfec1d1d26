package reactor

import "golang.org/x/sys/unix"

// acked asks the kernel which bytes the peer has acknowledged. Unacked is the number of segments in flight, Notsent_bytes the number of
// bytes that wait for the peer's window.
func acked(fd int) (count uint32, all bool) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, true // not TCP, as in tests with Unix sockets
	}
	return uint32(info.Bytes_acked), info.Unacked == 0 && info.Notsent_bytes == 0 // a change is what counts
}

// States in TCP_INFO of a connection that the peer has closed: by a reset, or in order.
const (
	tcpClosed    = 7
	tcpCloseWait = 8
)

// peerLeft reports whether the peer has closed the connection, and whether bytes are lost that were written and not acknowledged. A peer
// that has closed its connection acknowledges nothing; when late bytes arrive, it resets the connection.
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
