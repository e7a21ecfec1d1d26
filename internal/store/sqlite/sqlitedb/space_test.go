package sqlitedb

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeDisk returns a Space whose free space the test sets; it queries that every time.
func fakeDisk(t *testing.T, free *int64, minFree, ballast int64) *Space {
	t.Helper()
	s := &Space{
		dir: t.TempDir(), minFree: minFree, size: ballast, given: true,
		statfs: func(string) (int64, error) { return *free, nil },
	}
	s.ballast = filepath.Join(s.dir, "ballast")
	return s
}

func (s *Space) fullNow() bool {
	s.mu.Lock()
	s.look()
	s.mu.Unlock()
	return s.Full()
}

func TestTheReserveIsKeptFree(t *testing.T) {
	free := int64(1000)
	s := fakeDisk(t, &free, 100, 0)
	for _, c := range []struct {
		free, inside int64
		full, scarce bool
	}{
		{1000, 0, false, false},
		{399, 0, false, true},
		{100, 0, false, true},
		{99, 0, true, true},
		{1000, -901, true, true},  // copying the log into the file will take most of it
		{60, 500, false, false},   // the file itself has room
		{49, 500, true, false},    // but the log needs some of the disk
		{1000, 500, false, false}, // plenty
	} {
		free = c.free
		s.Inside = func() int64 { return c.inside }
		if got := s.fullNow(); got != c.full {
			t.Errorf("%d free, %d inside: full %t, want %t", c.free, c.inside, got, c.full)
		}
		if got := s.Scarce(); got != c.scarce {
			t.Errorf("%d free, %d inside: scarce %t, want %t", c.free, c.inside, got, c.scarce)
		}
	}
	s.Inside = nil
	s.statfs = func(string) (int64, error) { return 0, errors.New("no answer") }
	if s.fullNow() {
		t.Error("not knowing is taken for full")
	}
}

func TestAFastWriterIsStoppedBetweenTwoLooks(t *testing.T) {
	free := int64(1000)
	s := fakeDisk(t, &free, 100, 0)
	if s.fullNow() {
		t.Fatal("full at the start")
	}
	for range 100 {
		free -= 10
		s.Wrote(10)
		if s.Full() {
			break
		}
	}
	looks := 0
	s.statfs = func(string) (int64, error) { looks++; return 1_000_000, nil }
	s.fullNow()
	for range 100 {
		s.Wrote(10)
	}
	if looks != 1 {
		t.Errorf("looked %d times at a disk with room for much more", looks)
	}
	if free < 0 || free > 100 {
		t.Errorf("stopped with %d free, want it between 0 and 100", free)
	}
}

func TestADiskThatCannotBeAskedIsNamed(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	if _, err := NewSpace(filepath.Join(gone, "x.db"), 0, 0); err == nil || !strings.Contains(err.Error(), "free space of "+gone) {
		t.Errorf("got %v, want an error that names the folder", err)
	}
}

func TestADiskThatCannotBeAskedIsNotFull(t *testing.T) {
	if n := Free(filepath.Join(t.TempDir(), "gone")); n != math.MaxInt64 {
		t.Errorf("%d bytes are free", n)
	}
}

func TestTheBallastIsGivenUpOnceAndMadeAgain(t *testing.T) {
	free := int64(10_000)
	s := fakeDisk(t, &free, 100, 1000)
	there := func() bool {
		info, err := os.Stat(s.ballast)
		return err == nil && info.Size() == 1000
	}
	if err := s.Restore(); err != nil || !there() {
		t.Fatalf("no ballast: %v", err)
	}
	if !s.GiveUp() || there() {
		t.Error("the ballast was not given up")
	}
	if s.GiveUp() {
		t.Error("it was given up twice")
	}
	if !s.Full() {
		t.Error("the disk is not full just after it was")
	}
	free = 2099
	s.Inside = func() int64 { return 1 << 30 }
	if err := s.Restore(); err != nil || there() {
		t.Errorf("the ballast was made again in scarce space: %v", err)
	}
	free = 2100
	if err := s.Restore(); err != nil || !there() {
		t.Errorf("the ballast was not made again: %v", err)
	}
	if s.Full() {
		t.Error("still full")
	}
}
