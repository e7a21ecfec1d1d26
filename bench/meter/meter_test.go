package meter

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestCPUTimeIsFoundBehindAnyName(t *testing.T) {
	for _, name := range []string{"godwit", "a b", "evil) S 1 2 3", "(("} {
		stat := "42 (" + name + ") S 1 42 42 0 -1 4194560 1000 0 0 0 150 50 200 100 20 0 12 0 100 1 1 1\n"
		if got, err := parseCPU([]byte(stat), 2); err != nil || got != 2*time.Second {
			t.Errorf("a process named %q used %v (%v), want 2 s", name, got, err)
		}
		if got, err := parseCPU([]byte(stat), 4); err != nil || got != 5*time.Second {
			t.Errorf("with its children it used %v (%v), want 5 s", got, err)
		}
	}
	if _, err := parseCPU([]byte("42 (x) S 1"), 2); err == nil {
		t.Error("a line that is cut short is accepted")
	}
}

func TestMemoryIsReadInBytes(t *testing.T) {
	u, err := parseStatus("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t7\n")
	if err != nil || u.Resident != 1<<20 || u.Peak != 2<<20 || u.Threads != 7 {
		t.Errorf("usage is %+v, %v", u, err)
	}
	if _, err := parseStatus("Name:\tx\nState:\tZ (zombie)\nThreads:\t1\n"); err == nil {
		t.Error("a process without memory is accepted")
	}
}

func TestThisProcessUsesMemoryAndTime(t *testing.T) {
	begun := time.Now()
	for u := (Usage{}); u.CPU < 20*time.Millisecond; {
		var err error
		if u, err = Read(os.Getpid()); err != nil {
			t.Skip(err) // no /proc
		}
		if u.Resident < 1<<20 || u.Peak < u.Resident/2 {
			t.Fatalf("usage is %+v", u)
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("busy for a minute, but used only %v of CPU time", u.CPU)
		}
	}
}

func TestWatchOfAProcessThatEndsKeepsWhatItSaw(t *testing.T) {
	if _, err := Read(os.Getpid()); err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := Start([]int{cmd.Process.Pid}, time.Hour) // takes a sample at once and at the end, none between
	for {
		w.mu.Lock()
		n := len(w.samples)
		w.mu.Unlock()
		if n > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	in.Close()
	_ = cmd.Wait()
	samples := w.Stop()
	if len(samples) != 1 || Peak(samples) == 0 || CPU(samples) != 0 {
		t.Errorf("samples are %+v", samples)
	}
}

func TestADiskIsProbedWhereTheDataIs(t *testing.T) {
	dir := t.TempDir()
	d := Describe(dir).Disk
	if d == nil || d.P50 <= 0 || d.P50 > d.P99 || d.P99 > d.Max {
		t.Errorf("the disk is %+v", d)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the probe leaves %v, %v", left, err)
	}
	if d := Describe(dir + "/missing").Disk; d != nil {
		t.Errorf("a disk that is not there is %+v", d)
	}
}

func TestStolenTimeIsTheEighthNumber(t *testing.T) {
	if got := parseStolen("cpu  1941936 131815 511814 1024487 46065 0 60608 150 7 0"); got != 1500*time.Millisecond {
		t.Errorf("%v were stolen, want 1.5 s", got)
	}
	for _, line := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8 9", "cpu 1 2 3 4 5 6 7 x"} {
		if got := parseStolen(line); got != 0 {
			t.Errorf("%q says that %v were stolen", line, got)
		}
	}
}
