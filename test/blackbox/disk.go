package blackbox

import (
	"errors"
	"os"
	"os/user"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk mounts a file system in memory of a size such as 64m until the test ends, and returns its path. Only owner has access to it; empty:
// this user. Where mounting is not permitted the test is skipped.
func Disk(t testing.TB, size, owner string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "godwit-disk-") // another owner has no access to the test's own folder
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	options := "size=" + size + ",mode=0700"
	if owner != "" {
		u, err := user.Lookup(owner)
		if err != nil {
			t.Fatal(err)
		}
		options += ",uid=" + u.Uid + ",gid=" + u.Gid
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			Skip(t, "mounting a file system is not permitted here: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// Fill appends to a file until not one byte more fits.
func Fill(t testing.TB, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		_, err := f.Write(chunk)
		switch {
		case errors.Is(err, unix.ENOSPC):
			chunk = chunk[:len(chunk)/2]
		case err != nil:
			t.Fatal(err)
		}
	}
}
