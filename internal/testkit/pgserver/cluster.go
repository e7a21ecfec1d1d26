package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// initdb takes seconds, so it runs once per machine, version and user; each server starts on a copy.

// cluster returns a folder with an empty database cluster, made by initdb.
func cluster(ctx context.Context, bin string, as *syscall.Credential) (path string, err error) {
	cache := filepath.Join(os.TempDir(), fmt.Sprintf("godwit-pgserver-%d", os.Getuid()))
	if err := private(cache); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() // which unlocks it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	path = filepath.Join(cache, "cluster-"+strconv.Itoa(version(ctx, bin)))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	// The folder is made elsewhere first and then renamed, so that an existing one is complete. If root starts servers, another user needs
	// access.
	dir, err := os.MkdirTemp("", "godwit-initdb-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := own(dir, as); err != nil {
		return "", err
	}
	made := filepath.Join(dir, "cluster")
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale", "C", "-D", made)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", made, path+".part").CombinedOutput(); err != nil {
		return "", fmt.Errorf("copy database cluster: %w: %s", err, out)
	}
	return path, os.Rename(path+".part", path)
}

// private makes a folder to which only this user has access. Others may write to the folder for temporary files, so an existing folder must
// belong to this user.
func private(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Getuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s is not a folder that this user alone may write to: remove it", dir)
	}
	return nil
}

// runAs returns the user under which the server runs: PostgreSQL refuses to run as root.
func runAs() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user nobody: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user nobody: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func own(path string, as *syscall.Credential) error {
	if as == nil {
		return nil
	}
	return os.Chown(path, int(as.Uid), int(as.Gid))
}
