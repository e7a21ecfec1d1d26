//go:build !linux

package reactor

// acked knows nothing of the kernel's counts here.
func acked(int) (count uint32, all bool) { return 0, true }

func peerLeft(int) (closed, lost bool) { return false, false }

func (c *Conn) sysAcked() (count uint32, all bool) { return 0, true }
