package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestAServerRunsOnItsCoresAlone(t *testing.T) {
	all, err := allowed()
	if runtime.GOOS != "linux" {
		if _, err := New(Limits{Cores: 1}); err == nil {
			t.Error("what cannot be kept here is not refused")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Limits{Cores: len(all) + 1}); err == nil || !strings.Contains(err.Error(), strconv.Itoa(len(all)+1)) {
		t.Errorf("more cores than there are: %v", err)
	}
	c, err := New(Limits{Cores: 1})
	if err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), "cat", "/proc/self/status")
	if got := cores(t, server, func() error { _, err := c.Start(server); return err }); got != strconv.Itoa(all[0]) {
		t.Errorf("a server runs on CPU %s, want %d", got, all[0])
	}
	if len(all) > 1 {
		load := exec.CommandContext(t.Context(), "cat", "/proc/self/status")
		if got := cores(t, load, func() error { return c.StartBeside(load) }); slices.Contains(strings.Split(got, ","), strconv.Itoa(all[0])) {
			t.Errorf("a load generator runs on CPU %s, with the server", got)
		}
	}
	if now, err := allowed(); err != nil || !slices.Equal(now, all) {
		t.Errorf("this process runs on %v afterwards, %v", now, err)
	}
}

// cores returns the cores that a process reports it may run on.
func cores(t *testing.T, cmd *exec.Cmd, start func() error) string {
	t.Helper()
	var out strings.Builder
	cmd.Stdout = &out
	if err := start(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(out.String(), "Cpus_allowed_list:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

func TestMemoryIsToldToGo(t *testing.T) {
	t.Setenv("GOMAXPROCS", "7")
	t.Setenv("GOMEMLIMIT", "1")
	has := func(c *Confines, v string) bool { return slices.Contains(c.Environ(), v) }
	for _, c := range []struct {
		limits             Limits
		threads, own, ours bool
	}{{Limits{Cores: 1}, false, true, false}, {Limits{Memory: 1000}, true, false, true}, {Limits{1, 1000}, false, false, true}} {
		confines := &Confines{limits: c.limits}
		if has(confines, "GOMAXPROCS=7") != c.threads || has(confines, "GOMEMLIMIT=1") != c.own || has(confines, "GOMEMLIMIT=900") != c.ours {
			t.Errorf("with %+v the environment is %q", c.limits, confines.Environ())
		}
	}
	if !has(nil, "GOMAXPROCS=7") {
		t.Error("without limits the environment is another")
	}
}

// tree makes a folder with the structure of a cgroup file system: root/outer/own, with controllers enabled for the children of some.
func tree(t *testing.T, handedDown map[string]string) (own, mount string) {
	t.Helper()
	mount = t.TempDir()
	if err := os.MkdirAll(filepath.Join(mount, "outer", "own"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "outer", "outer/own"} {
		write(t, filepath.Join(mount, dir, "cgroup.subtree_control"), handedDown[dir]+"\n")
	}
	write(t, filepath.Join(mount, "cgroup.controllers"), "cpu memory pids\n")
	own = filepath.Join(t.TempDir(), "cgroup")
	write(t, own, "3:cpuset:/\n0::/outer/own\n")
	return own, mount
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestACgroupIsMadeWhereMemoryIsHandedDown(t *testing.T) {
	for _, c := range []struct {
		handedDown map[string]string
		want       string // empty: no cgroup can be made, and the reason names what is missing
	}{
		{map[string]string{"outer/own": "cpu memory"}, "outer/own"},
		{map[string]string{"outer/own": "cpu", "outer": "memory pids"}, "outer"},
		{map[string]string{"": "memory"}, ""}, // too far out: somebody else's
	} {
		own, mount := tree(t, c.handedDown)
		got, err := parentGroup(own, mount, 1<<30)
		if c.want == "" && (err == nil || !strings.Contains(err.Error(), "hand the control of memory down") || strings.Contains(err.Error(), "\n")) ||
			c.want != "" && (err != nil || got != filepath.Join(mount, c.want)) {
			t.Errorf("with %v it is %q, %v; want %q", c.handedDown, got, err, c.want)
		}
	}
	if _, err := parentGroup("/dev/null", t.TempDir(), 1); err == nil {
		t.Error("a folder is taken for a tree of cgroups")
	}
}

func TestACgroupHasTheLimit(t *testing.T) {
	g, err := makeGroup(t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"memory.max": "1073741824", "memory.swap.max": "0"} {
		if b, err := os.ReadFile(filepath.Join(g.dir, file)); err != nil || string(b) != want {
			t.Errorf("%s is %q, %v; want %q", file, b, err, want)
		}
	}
	if _, err := makeGroup(filepath.Join(t.TempDir(), "missing"), 1); err == nil {
		t.Error("a cgroup is made nowhere")
	}
}

func TestConfinementReportsItsLimits(t *testing.T) {
	if (*Confines)(nil).Describe() != nil {
		t.Error("limits are described where there are none")
	}
	c := &Confines{limits: Limits{1, 1 << 30}, cores: []int{0}, others: []int{1, 2}, noGroup: os.ErrPermission}
	if got := c.Describe(); len(got) != 2 || !strings.Contains(got[0][1], "CPU 0; load generators on CPU 1, 2") || !strings.Contains(got[1][1], "1024 MB: GOMEMLIMIT of nine tenths alone") ||
		!strings.Contains(got[1][1], "permission") {
		t.Errorf("described as %q", got)
	}
	c.group = "/sys/fs/cgroup/x"
	if got := c.Describe(); !strings.Contains(got[1][1], "memory.max") {
		t.Errorf("with a cgroup described as %q", got)
	}
}
