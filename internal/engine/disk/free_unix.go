//go:build unix

// Package disk measures the free space of disks.
package disk

import "golang.org/x/sys/unix"

// Free is how many bytes the process may still write to the disk that a folder is on.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
