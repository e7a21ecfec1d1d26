package faults

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// 200 seeds cover each file, damaged in each way, beside a running server and under a stopped one, and repeat more than half of these
// cases.
var damageSeeds = flag.Int("seeds", thorough.Rounds(6, 12), "how many cases of damage to try")

var hows = []string{"flip", "truncate", "zero", "delete"}

var damagedFiles = []string{
	"mailbox.db", "mailbox.db-wal", "mailbox.db-sums", "objects.db", "objects.db-wal", "objects.db-sums", "campaign.db", "campaign.db-wal",
	"campaign.db-sums", "events.db", "events.db-wal", "events.db-sums", "apps.db", "apps.db-wal", "apps.db-sums", "store.json", "lock",
	"mailbox.db-note", "objects.db-note", "apps.db-note",
}

// harm damages a file; false: the file cannot be damaged in this way.
func harm(rnd *rand.Rand, path, how string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		return false
	}
	if how == "delete" {
		return os.Remove(path) == nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	at := rnd.Int64N(info.Size())
	switch how {
	case "flip":
		var b [1]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			return false
		}
		b[0] ^= 1 << rnd.IntN(8)
		_, err = f.WriteAt(b[:], at)
	case "truncate":
		err = f.Truncate(at)
	case "zero":
		at = at / 4096 * 4096
		_, err = f.WriteAt(make([]byte, min(4096, info.Size()-at)), at)
	}
	return err == nil
}

// stride orders the cases so that a few seeds cover different kinds.
const stride = 45

// TestNothingIsLostOrAlteredInSilence damages copies of a real server's folder. In every case, each acknowledged item is
// there unchanged, or the server or the repair has reported it as lost.
func TestNothingIsLostOrAlteredInSilence(t *testing.T) {
	blackbox.Long(t)
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	want := fillServer(t, s)
	s.Kill()
	killed := copyFolder(t, s.Dir)
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	if code := s.Stop(); code != 0 {
		t.Fatalf("it stops with code %d", code)
	}
	stopped := copyFolder(t, s.Dir)
	for seed := range uint64(*damageSeeds) {
		rnd := rand.New(rand.NewPCG(seed, 22))
		from, state := killed, "killed"
		if rnd.IntN(3) == 0 {
			from, state = stopped, "stopped"
		}
		n := int(seed) * stride % (len(damagedFiles) * len(hows) * 2)
		file, how, running := damagedFiles[n%len(damagedFiles)], hows[n/len(damagedFiles)%len(hows)], n/len(damagedFiles)/len(hows) == 0
		name := fmt.Sprintf("%d %s %s of %s", seed, state, how, file)
		if running {
			name += " running"
		}
		t.Run(name, func(t *testing.T) { damaged(t, rnd, from, file, how, running, want) })
	}
}

func damaged(t *testing.T, rnd *rand.Rand, from, file, how string, running bool, before content) {
	dir, want := copyFolder(t, from), content{}
	for f, kept := range before {
		for key, value := range kept {
			want.put(f, key, value)
		}
	}
	s := blackbox.New(t, blackbox.Dev(), blackbox.Plain(), blackbox.In(dir))
	r := &report{}
	if running {
		if err := s.Launch(); err != nil {
			t.Fatal(err)
		}
		if _, err := publishRange(t.Context(), s, want, each, each+2); err != nil {
			t.Fatal(err)
		}
		if !harm(rnd, filepath.Join(dir, file), how) {
			return
		}
		got, err := readServer(t.Context(), s, want)
		if err == nil && !s.Exited() {
			compare(t, "while it runs", want, got, r, func() bool { return s.Exited() || met(t, s) })
			_, _ = publishRange(t.Context(), s, want, each+2, each+3) // refused, if the server has found the damage
		}
		if how == "delete" && !s.Exited() {
			blackbox.Eventually(t, "it ends loudly", func() error {
				if !s.Exited() {
					return fmt.Errorf("it runs on without %s", file)
				}
				return nil
			})
		}
		s.Kill()
	} else if !harm(rnd, filepath.Join(dir, file), how) {
		return
	}
	began := len(s.Log())
	if err := s.Launch(); err != nil {
		if log := s.Log()[began:]; !strings.Contains(log, file) && !strings.Contains(log, "damaged") && !strings.Contains(log, "missing") {
			t.Fatalf("it refuses without a word: %v\n%s", err, log)
		}
		if !s.Exited() { // after its start it found the damage, and reports that it is not ready
			s.Kill()
		}
		repair(t, s, r)
		if err := s.Launch(); err != nil {
			t.Fatalf("after the repair: %v", err)
		}
	}
	got, err := readServer(t.Context(), s, want)
	if err != nil {
		t.Fatal(err)
	}
	if met(t, s) { // reading found the damage: repair it now
		s.Kill()
		repair(t, s, r)
		if err := s.Launch(); err != nil {
			t.Fatalf("after the repair: %v", err)
		}
		if got, err = readServer(t.Context(), s, want); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, "in the end", want, got, r, nil)
	if _, err := publishRange(t.Context(), s, content{}, 500, 501); err != nil {
		t.Error(err)
	}
	s.Kill()
}

// met reports whether the server states that it has found damage.
func met(t *testing.T, s *blackbox.Server) bool {
	t.Helper()
	a, err := s.API().Do(t.Context(), http.MethodGet, "/readyz", nil)
	return err != nil || a.Status != http.StatusOK
}

func repair(t *testing.T, s *blackbox.Server, r *report) {
	t.Helper()
	began := time.Now()
	out, err := s.Run("doctor", "--repair", "--json", "--data", s.Dir)
	if err != nil {
		t.Fatalf("repair: %v: %s", err, out)
	}
	var more report
	if err := json.Unmarshal([]byte(out), &more); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.Files = append(r.Files, more.Files...)
	t.Logf("repaired in %s: %s", time.Since(began), out)
}
