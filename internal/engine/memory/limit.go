package memory

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// assumed is the limit of a process about which the system says nothing.
const assumed = 4 << 30

// Limit returns how many bytes the process may use: the least of Go's soft limit, the limits of its control groups and the machine's
// memory.
func Limit() int64 { return least(debug.SetMemoryLimit(-1), groupLimit(os.DirFS("/")), machine()) }

// least returns the lowest known limit. 0 and math.MaxInt64 say nothing.
func least(limits ...int64) int64 {
	lowest := int64(math.MaxInt64)
	for _, n := range limits {
		if n > 0 {
			lowest = min(lowest, n)
		}
	}
	if lowest == math.MaxInt64 {
		return assumed
	}
	return lowest
}

// groupLimit returns the lowest memory limit of the process's control groups and of those around them, in either version; 0: there is none.
func groupLimit(root fs.FS) (lowest int64) {
	b, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) { // hierarchy:controllers:path
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) < 3 {
			continue
		}
		switch {
		case part[1] == "":
			lowest = lower(lowest, limitAbove(root, "sys/fs/cgroup", part[2], "memory.max"))
		case strings.Contains(","+part[1]+",", ",memory,"):
			lowest = lower(lowest, limitAbove(root, "sys/fs/cgroup/memory", part[2], "memory.limit_in_bytes"))
		}
	}
	return lowest
}

// limitAbove returns the lowest limit of a group and of those around it. A container sees the group's path on the host but only its own
// files, so folders may be missing.
func limitAbove(root fs.FS, mount, group, file string) (lowest int64) {
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		if b, err := fs.ReadFile(root, path.Join(mount, at, file)); err == nil {
			n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64) // "max" is no limit
			lowest = lower(lowest, n)
		}
		if at == "/" {
			return lowest
		}
	}
}

// lower returns the lower of two limits, where 0 is none.
func lower(a, b int64) int64 {
	if a <= 0 || b > 0 && b < a {
		return max(b, 0)
	}
	return a
}
