package datadir_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"godwit.dev/godwit/internal/server/app/datadir"
)

func TestSecondHolderIsRefusedByNameOfTheFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "data")
	first, err := datadir.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = datadir.Acquire(dir)
	var inUse *datadir.InUseError
	if !errors.As(err, &inUse) || inUse.PID != os.Getpid() || inUse.Dir != dir {
		t.Errorf("second holder got %v", err)
	}
	if pid, held := datadir.Held(dir); !held || pid != os.Getpid() {
		t.Errorf("held %t by %d", held, pid)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if _, held := datadir.Held(dir); held {
		t.Error("held after release")
	}
	again, err := datadir.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder has mode %v, %v; others must not look in", info.Mode(), err)
	}
}

func TestAddressesAreReplacedInOneStep(t *testing.T) {
	dir := t.TempDir()
	if err := datadir.RemoveAddresses(dir); err != nil {
		t.Error(err)
	}
	want := datadir.Addresses{HTTP: "127.0.0.1:1", GRPC: "127.0.0.1:2"}
	for range 2 {
		if err := datadir.WriteAddresses(dir, want); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := datadir.ReadAddresses(dir); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, %v", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("folder holds %v, %v", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("it has mode %v, %v", info.Mode(), err)
	}
	b, err := os.ReadFile(filepath.Join(dir, datadir.AddressesFile))
	if text := `{"http":"127.0.0.1:1","grpc":"127.0.0.1:2","mqtt":"","nats":""}` + "\n"; err != nil || string(b) != text {
		t.Errorf("file says %s, %v", b, err)
	}
	inTheWay := t.TempDir()
	if err := os.Mkdir(filepath.Join(inTheWay, datadir.AddressesFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := datadir.WriteAddresses(inTheWay, want); err == nil {
		t.Error("addresses that cannot be put in place are said to be written")
	}
}

func TestARemovedLockFileLetsNobodyIn(t *testing.T) {
	dir := t.TempDir()
	lock, err := datadir.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := lock.Gone(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, datadir.LockFile)); err != nil {
		t.Fatal(err)
	}
	var inUse *datadir.InUseError
	if _, err := datadir.Acquire(dir); !errors.As(err, &inUse) {
		t.Errorf("a second one gets %v", err)
	}
	if err := lock.Gone(); err == nil {
		t.Error("nobody notices that the lock file is gone")
	}
}

func TestFormerBootIsKnownOnTheSameMachineOnly(t *testing.T) {
	dir := t.TempDir()
	lock, err := datadir.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	boot := func(mine, want string) {
		t.Helper()
		if former, err := lock.Boot(mine); err != nil || former != want {
			t.Errorf("before %s there was %q, want %q: %v", mine, former, want, err)
		}
	}
	boot("one", "")
	if _, err := os.Stat(filepath.Join(dir, datadir.BootFile)); errors.Is(err, os.ErrNotExist) {
		t.Skip("this system does not say when it was started")
	}
	boot("two", "one")
	for _, elsewhere := range []string{"another-machine three\n", "torn", ""} {
		if err := os.WriteFile(filepath.Join(dir, datadir.BootFile), []byte(elsewhere), 0o600); err != nil {
			t.Fatal(err)
		}
		boot("four", "")
	}
}
