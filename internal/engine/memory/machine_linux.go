package memory

import "syscall"

// machine returns the machine's memory in bytes; 0: unknown.
func machine() int64 {
	var si syscall.Sysinfo_t
	if syscall.Sysinfo(&si) != nil {
		return 0
	}
	return int64(si.Totalram) * int64(si.Unit) // the fields' types differ between architectures, and no machine has 2^63 bytes
}
