package sqlitedb

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/disk"
)

// spaceEvery is the least interval between two queries of the disk's free space.
const spaceEvery = 100 * time.Millisecond

// Space watches the disk of a database: below a reserve new data is refused. When the disk is completely full, a ballast file is deleted,
// which leaves room to settle and clean up.
type Space struct {
	dir, ballast  string
	minFree, size int64
	statfs        func(dir string) (free int64, err error)

	// Inside, if set before use, returns the free bytes inside the database file, minus those that its log will need. They count as free as
	// long as half the reserve is free on the disk itself, for the log.
	Inside func() int64

	mu      sync.Mutex
	checked time.Time
	noted   int64 // written since then
	disk    int64 // free on the disk
	free    int64 // including free pages inside the file
	full    bool
	given   bool // the ballast is not there
}

// Free returns the free bytes on the disk of a folder. If that is unknown it returns a huge number: writes to a full disk fail by
// themselves.
func Free(dir string) int64 {
	n, err := disk.Free(dir)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

// NewSpace watches the disk of the database at path and makes its ballast if there is room.
func NewSpace(path string, minFree, ballast int64) (*Space, error) {
	s := &Space{dir: filepath.Dir(path), ballast: path + "-ballast", minFree: minFree, size: ballast, statfs: disk.Free, given: true}
	if _, err := s.statfs(s.dir); err != nil {
		return nil, fmt.Errorf("ask for free space of %s: %w", s.dir, err)
	}
	if info, err := os.Stat(s.ballast); err == nil && info.Size() == ballast {
		s.given = false
	}
	s.Full()
	return s, s.Restore()
}

// Full reports whether the disk is below its reserve.
func (s *Space) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.full
}

// Scarce reports whether less than four times the reserve is left.
func (s *Space) Scarce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.free < 4*s.minFree
}

// Wrote counts about so many written bytes, so that a fast writer does not use up the reserve between two queries of the disk.
func (s *Space) Wrote(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted += bytes
	if s.noted > max(s.free-s.minFree, s.minFree)/4 {
		s.look()
	}
}

func (s *Space) refresh() {
	if time.Since(s.checked) > spaceEvery {
		s.look()
	}
}

func (s *Space) look() {
	free, err := s.statfs(s.dir)
	if err != nil {
		free = math.MaxInt64 // an unknown state is no reason to refuse data
	}
	s.checked, s.noted, s.disk = time.Now(), 0, free
	s.full = free < s.minFree/2
	if s.Inside != nil && err == nil {
		free = max(0, free+s.Inside())
	}
	s.free = free
	s.full = s.full || free < s.minFree
}

// State returns the free space at the last query, and whether it is below the reserve.
func (s *Space) State() (free int64, full bool) {
	full = s.Full()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free, full
}

// GiveUp deletes the ballast, since the disk is full, and reports whether that freed anything.
func (s *Space) GiveUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full, s.checked = true, time.Now()
	if s.given {
		return false
	}
	s.given = os.Remove(s.ballast) == nil
	return s.given
}

// Restore creates the ballast again once there is enough space. It may take a while.
func (s *Space) Restore() error {
	s.mu.Lock()
	s.look()
	wanted := s.given && s.size > 0 && s.disk >= s.minFree+2*s.size
	s.mu.Unlock()
	if !wanted {
		return nil
	}
	if err := writeBallast(s.ballast, s.size); err != nil {
		return errors.Join(fmt.Errorf("make ballast: %w", err), removeIfThere(s.ballast))
	}
	s.mu.Lock()
	s.given = false
	s.mu.Unlock()
	return nil
}

// writeBallast writes real bytes: deleting a sparse file would free nothing.
func writeBallast(path string, size int64) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	chunk := make([]byte, 64<<10)
	for i := range chunk {
		chunk[i] = byte(i*7 + i>>8) // not zeros, which some file systems store as holes
	}
	for size > 0 {
		n, err := f.Write(chunk[:min(size, int64(len(chunk)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}
