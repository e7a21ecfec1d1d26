// Package confine runs servers on part of a machine: on some of its cores, and with some of its memory.
package confine

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Limits are the resources that servers may use; 0: no limit.
type Limits struct {
	Cores  int   // of all servers together
	Memory int64 // bytes, of each server
}

// Confines are limits prepared for this machine. A nil *Confines limits nothing.
type Confines struct {
	limits  Limits
	cores   []int  // of the servers; nil: all
	others  []int  // cores of the load generators; nil: all
	group   string // parent cgroup, in which each server gets its own; empty: no cgroup can be made
	noGroup error  // why not
}

// New determines how this machine can enforce the limits. It returns an error if it cannot.
func New(l Limits) (*Confines, error) {
	all, err := allowed()
	if err != nil {
		return nil, err
	}
	c := &Confines{limits: l}
	if l.Cores > 0 {
		if l.Cores > len(all) {
			return nil, fmt.Errorf("this machine has %d cores for this program, not %d", len(all), l.Cores)
		}
		c.cores, c.others = all[:l.Cores], all[l.Cores:]
		if len(c.others) == 0 {
			c.others = all
		}
	}
	if l.Memory > 0 {
		c.group, c.noGroup = parentGroup("/proc/self/cgroup", "/sys/fs/cgroup", l.Memory)
	}
	return c, nil
}

// goShare is the part of the memory limit that GOMEMLIMIT gets. The rest is for memory that Go does not count, such as the system's
// buffers.
const goShare = 0.9

// Environ returns the environment for a server: this program's own, but with GOMEMLIMIT according to the limits and without GOMAXPROCS
// where cores are limited. Cores need no variable: Go's scheduler counts the cores that the process may run on.
func (c *Confines) Environ() []string {
	env := os.Environ()
	if c == nil {
		return env
	}
	env = slices.DeleteFunc(env, func(v string) bool {
		return c.limits.Cores > 0 && strings.HasPrefix(v, "GOMAXPROCS=") || c.limits.Memory > 0 && strings.HasPrefix(v, "GOMEMLIMIT=")
	})
	if c.limits.Memory > 0 {
		env = append(env, "GOMEMLIMIT="+strconv.FormatInt(int64(goShare*float64(c.limits.Memory)), 10))
	}
	return env
}

// Start starts a server within the limits. The caller must call release after the server has ended.
func (c *Confines) Start(cmd *exec.Cmd) (release func(), err error) {
	release = func() {}
	if c == nil {
		return release, cmd.Start()
	}
	if c.group != "" {
		g, err := makeGroup(c.group, c.limits.Memory)
		if err != nil {
			return nil, err
		}
		release = g.remove
		into, err := g.enter(cmd)
		if err != nil {
			release()
			return nil, err
		}
		defer into()
	}
	if err := startOn(c.cores, cmd); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// StartBeside starts a load generator on the cores that servers leave over, or on all cores if they leave none.
func (c *Confines) StartBeside(cmd *exec.Cmd) error {
	if c == nil {
		return cmd.Start()
	}
	return startOn(c.others, cmd)
}

// Describe returns the active limits for people, and how they are enforced: pairs of a name and a value.
func (c *Confines) Describe() (pairs [][2]string) {
	if c == nil {
		return nil
	}
	if n := c.limits.Cores; n > 0 {
		value := fmt.Sprintf("%d, pinned to CPU %s; load generators on CPU %s", n, list(c.cores), list(c.others))
		pairs = append(pairs, [2]string{"server cores", value})
	}
	if n := c.limits.Memory; n > 0 {
		value := fmt.Sprintf("%d MB: GOMEMLIMIT of nine tenths, and a cgroup's memory.max", n>>20)
		if c.group == "" {
			value = fmt.Sprintf("%d MB: GOMEMLIMIT of nine tenths alone, which only programs in Go heed; no cgroup could be made: %v", n>>20, c.noGroup)
		}
		pairs = append(pairs, [2]string{"memory of a server", value})
	}
	return pairs
}

func list(cpus []int) string {
	var all []string
	for _, n := range cpus {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ", ")
}
