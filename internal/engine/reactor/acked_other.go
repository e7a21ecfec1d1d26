//go:build !linux

package reactor

// acked: the kernel of this system does not report acknowledgements, so all bytes count as acknowledged.
func acked(int) (count uint32, all bool) { return 0, true }

func peerLeft(int) (closed, lost bool) { return false, false }

func (c *Conn) sysAcked() (count uint32, all bool) { return 0, true }
