package reactor

import "golang.org/x/sys/unix"

// acked asks the kernel what the peer has acknowledged: Unacked counts segments on their way, Notsent_bytes what the
// peer's window has no room for.
func acked(fd int) (count uint32, all bool) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, true // no TCP, as in tests over Unix sockets
	}
	return uint32(info.Bytes_acked), info.Unacked == 0 && info.Notsent_bytes == 0 // a change is what counts
}

func (c *Conn) sysAcked() (count uint32, all bool) { return acked(int(c.fd)) }
