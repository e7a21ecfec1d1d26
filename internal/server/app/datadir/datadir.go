// Package datadir manages the data folder: its file names, the lock of the process that uses it, and the listening addresses of its server.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Names of the files in a data folder besides those of stores.
const (
	LockFile      = "lock"
	AddressesFile = "addresses.json"
	BootFile      = "boot"
)

// InUseError says that another process holds the folder.
type InUseError struct {
	Dir string
	PID int // 0: not known
}

func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("data folder %s is in use by another server", e.Dir)
	}
	return fmt.Sprintf("data folder %s is in use by another server, process %d", e.Dir, e.PID)
}

// Lock is a locked data folder. It locks the folder itself, which cannot be removed while it is not empty, and a file in it that names the
// holder.
type Lock struct{ f, dir *os.File }

// Acquire makes the folder if it is missing and locks it for this process. The kernel releases the lock when the process ends, however it
// ends. Acquire returns an *InUseError if another process holds it.
func Acquire(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	l := &Lock{}
	var err error
	if l.dir, err = os.Open(dir); err == nil {
		l.f, err = os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err == nil {
		err = unix.Flock(int(l.dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		err = unix.Flock(int(l.f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		err = writePID(l.f)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &InUseError{Dir: dir, PID: Holder(dir)}
	} else if err != nil {
		err = fmt.Errorf("lock data folder %s: %w", dir, err)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *Lock) close() {
	for _, f := range []*os.File{l.f, l.dir} {
		if f != nil {
			f.Close()
		}
	}
}

// Gone returns an error if the lock file was removed or replaced.
func (l *Lock) Gone() error {
	mine, err := l.f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(l.f.Name())
	if err == nil && !os.SameFile(mine, there) {
		err = errors.New("another file was put in its place")
	}
	if err != nil {
		return fmt.Errorf("the lock file of the data folder is gone: %w", err)
	}
	return nil
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Boot stores this process's name in the cluster (its boot), and returns the name of the process that held the folder before. That process
// has ended, since it held the lock. former is empty if it ran on another machine, or before this machine was started: the folder may then
// be a copy of one that is still in use.
func (l *Lock) Boot(boot string) (former string, err error) {
	name := filepath.Join(filepath.Dir(l.f.Name()), BootFile)
	kernel, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", nil // no such thing here: nobody knows
	}
	machine := strings.TrimSpace(string(kernel))
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read who had the data folder before: %w", err)
	}
	if was, who, _ := strings.Cut(strings.TrimSpace(string(b)), " "); was == machine {
		former = who
	}
	if err := os.WriteFile(name, []byte(machine+" "+boot+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write who has the data folder: %w", err)
	}
	return former, nil
}

// Release unlocks the folder. The lock file stays: removing it would let two processes lock two files.
func (l *Lock) Release() error { return errors.Join(l.f.Close(), l.dir.Close()) }

// Holder reads the process id that a folder's lock file names; 0: none. The process may be gone.
func Holder(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, LockFile))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

// Addresses holds a server's listening addresses; empty: that listener is off.
type Addresses struct {
	HTTP string `json:"http"`
	GRPC string `json:"grpc"`
	MQTT string `json:"mqtt"`
	NATS string `json:"nats"`
	// QUIC is the UDP address of the listener for QUIC.
	QUIC string `json:"quic,omitempty"`
	// Gateway is the address of the listener for the gateway alone.
	Gateway string `json:"gateway,omitempty"`
	// CompatHTTP is the address of the listener for probes and scrapes of a replaced service.
	CompatHTTP string `json:"compat_http,omitempty"`
	// Others holds the addresses of modules' listeners, by the keys of their settings.
	Others map[string]string `json:"others,omitempty"`
	// Drain is the state of a requested drain: Draining, then Drained. Empty: none was requested.
	Drain string `json:"drain,omitempty"`
}

// States of a drain.
const (
	Draining = "draining"
	Drained  = "drained"
)

// WriteAddresses replaces the folder's address file in one step, so that a reader sees either the whole new file or the old one.
func WriteAddresses(dir string, a Addresses) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, AddressesFile)
	tmp := name + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write addresses: %w", err)
	}
	if err := os.Rename(tmp, name); err != nil {
		return fmt.Errorf("write addresses: %w", err)
	}
	return nil
}

// ReadAddresses reads the listening addresses of the folder's server. The server may have ended since.
func ReadAddresses(dir string) (a Addresses, err error) {
	b, err := os.ReadFile(filepath.Join(dir, AddressesFile))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("read %s: %w", AddressesFile, err)
	}
	return a, nil
}

// RemoveAddresses deletes the address file, so that nobody takes a former server's addresses for current ones.
func RemoveAddresses(dir string) error {
	err := os.Remove(filepath.Join(dir, AddressesFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Held reports whether a process holds the folder, and its id. It changes nothing.
func Held(dir string) (pid int, held bool) {
	for _, name := range []string{dir, filepath.Join(dir, LockFile)} {
		f, err := os.Open(name)
		if err != nil {
			return 0, false
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		f.Close() // which lets go again
		if err != nil {
			return Holder(dir), errors.Is(err, unix.EWOULDBLOCK)
		}
	}
	return 0, false
}

// Holds reports whether a file lies in a data folder, of this server or of another. The path must be without symbolic links.
func Holds(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		_, lock := os.Lstat(filepath.Join(dir, LockFile))
		_, boot := os.Lstat(filepath.Join(dir, BootFile))
		if lock == nil && boot == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}
