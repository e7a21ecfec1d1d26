package scenario

import "testing"

func TestConnectionsFitTheFilesOfSeveralProcesses(t *testing.T) {
	for files, each := range map[uint64]int{1000: 850, 20_000: 17_000, 1 << 20: 17_000, ^uint64(0): 17_000} {
		if got := fitting(files); got != each {
			t.Errorf("a process with %d files holds %d, want %d", files, got, each)
		}
	}
	for _, c := range []struct{ row, each, connections, servers int }{
		{1000, 17_000, 1000, 1},
		{17_001, 17_000, 17_001, 2},
		{100_000, 17_000, 100_000, 6},
		{100_000, 850, 6800, 8},
	} {
		if connections, servers := reached(c.row, c.each); connections != c.connections || servers != c.servers {
			t.Errorf("%d with %d each: %d on %d servers", c.row, c.each, connections, servers)
		}
	}
}
