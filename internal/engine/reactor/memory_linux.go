package reactor

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machineMemory returns the memory that the process may use: the control group's limit if there is one, else the machine's memory; 0:
// unknown.
func machineMemory() int64 {
	var si unix.Sysinfo_t
	total := int64(0)
	if unix.Sysinfo(&si) == nil {
		total = int64(si.Totalram) * int64(si.Unit)
	}
	b, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return total
	}
	if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && (total == 0 || n < total) {
		return n
	}
	return total
}
