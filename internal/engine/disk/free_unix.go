//go:build unix

// Package disk measures the free space of disks.
package disk

import "golang.org/x/sys/unix"

// Free returns the number of bytes that this process may still write to the disk that holds dir.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
