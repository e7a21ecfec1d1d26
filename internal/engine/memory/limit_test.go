package memory

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestTheLowestKnownLimitCounts(t *testing.T) {
	for _, c := range []struct {
		name                string
		soft, group, system int64
		want                int64
	}{
		{"nothing is known", math.MaxInt64, 0, 0, assumed},
		{"a machine", math.MaxInt64, 0, 16 << 30, 16 << 30},
		{"a control group", math.MaxInt64, 1 << 30, 16 << 30, 1 << 30},
		{"a group above the machine", math.MaxInt64, 64 << 30, 16 << 30, 16 << 30},
		{"Go's limit", 256 << 20, 1 << 30, 16 << 30, 256 << 20},
		{"Go's limit above the group's", 2 << 30, 1 << 30, 16 << 30, 1 << 30},
	} {
		if got := least(c.soft, c.group, c.system); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestLimitFollowsGosSoftLimit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	if got := Limit(); got != 64<<20 {
		t.Errorf("the limit is %d", got)
	}
	if got := NewBudget(0).Limit(); got != 16<<20 {
		t.Errorf("a budget has %d bytes, want a quarter", got)
	}
}

func TestLimitsOfControlGroupsAreFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no groups", nil, 0},
		{"version 2 without a limit", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		{"a container of version 2", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30},
		{"a service of systemd", map[string]string{
			"proc/self/cgroup": "0::/system.slice/godwit.service\n",
			"sys/fs/cgroup/system.slice/godwit.service/memory.max":     "536870912\n",
			"sys/fs/cgroup/system.slice/memory.max":                    "max\n",
			"sys/fs/cgroup/system.slice/another.service/memory.max":    "4096\n",
			"sys/fs/cgroup/system.slice/godwit.service/memory.current": "4096\n",
		}, 512 << 20},
		{"a slice below its service", map[string]string{
			"proc/self/cgroup": "0::/system.slice/godwit.service\n",
			"sys/fs/cgroup/system.slice/godwit.service/memory.max": "536870912\n",
			"sys/fs/cgroup/system.slice/memory.max":                "268435456\n",
		}, 256 << 20},
		{"version 1", map[string]string{
			"proc/self/cgroup": "11:cpu,cpuacct:/a\n4:memory:/a\n0::/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "134217728\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		}, 128 << 20},
		{"a container of version 1 that sees the host's path", map[string]string{
			"proc/self/cgroup":                           "4:memory:/docker/0123\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "134217728\n",
		}, 128 << 20},
		{"a path that leads out", map[string]string{"proc/self/cgroup": "0::/../..\n", "sys/fs/cgroup/memory.max": "4194304\n"}, 4 << 20},
		{"lines without meaning", map[string]string{"proc/self/cgroup": "\n0\n0::\n", "sys/fs/cgroup/memory.max": "many\n"}, 0},
	} {
		root := fstest.MapFS{}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := groupLimit(root); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
