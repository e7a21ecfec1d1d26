package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// group is a cgroup of version 2 that holds one server.
type group struct{ dir string }

// made counts this process's groups, to number them.
var made atomic.Int64

// parentGroup finds the cgroup in which groups with a memory limit can be created: this process's own, or its parent. own is the file in
// which the kernel reports this process's cgroup, mount the root of the cgroup file system.
func parentGroup(own, mount string, memory int64) (string, error) {
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil {
		return "", fmt.Errorf("%s is no tree of cgroups of version 2", mount)
	}
	text, err := os.ReadFile(own)
	if err != nil {
		return "", err
	}
	path := "/"
	for line := range strings.Lines(string(text)) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			path = strings.TrimSpace(p)
		}
	}
	here := filepath.Join(mount, path)
	candidates := []string{here}
	if path != "/" {
		candidates = append(candidates, filepath.Dir(here))
	}
	var failed error
	for _, dir := range candidates {
		handed, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err == nil && !slices.Contains(strings.Fields(string(handed)), "memory") {
			err = fmt.Errorf("%s does not hand the control of memory down", dir)
		}
		if err == nil {
			var g *group
			if g, err = makeGroup(dir, memory); err == nil {
				g.remove()
				return dir, nil
			}
		}
		failed = errors.Join(failed, err)
	}
	return "", errors.New(strings.ReplaceAll(failed.Error(), "\n", "; "))
}

// makeGroup creates a cgroup with a memory limit and without swap.
func makeGroup(parent string, memory int64) (*group, error) {
	g := &group{dir: filepath.Join(parent, fmt.Sprintf("godwit-bench-%d-%d", os.Getpid(), made.Add(1)))}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	err := os.WriteFile(filepath.Join(g.dir, "memory.max"), strconv.AppendInt(nil, memory, 10), 0o644)
	if err != nil {
		g.remove()
		return nil, fmt.Errorf("limit a cgroup's memory: %w", err)
	}
	_ = os.WriteFile(filepath.Join(g.dir, "memory.swap.max"), []byte("0"), 0o644) // the file is absent if the kernel does not count swap
	return g, nil
}

// remove removes the cgroup after its processes have ended.
func (g *group) remove() { _ = os.Remove(g.dir) } // one that stays limits nothing
