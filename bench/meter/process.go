// Package meter reads the resources that processes use: CPU time and memory from /proc. It also describes the machine.
package meter

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU times in /proc; Linux fixes it for user space at 100 a second.
const clockTick = 10 * time.Millisecond

// Usage is the CPU time that a process has used so far, and its current memory.
type Usage struct {
	CPU      time.Duration // user and system time of all threads, in steps of 10 ms
	Resident int64         // bytes in memory now
	Peak     int64         // highest memory so far, in bytes
	Threads  int
}

// Read reads the usage of a process.
func Read(pid int) (Usage, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return Usage{}, fmt.Errorf("measure process %d: %w", pid, err)
	}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Usage{}, fmt.Errorf("measure process %d: %w", pid, err)
	}
	u, err := parseStatus(string(status))
	if err != nil {
		return Usage{}, fmt.Errorf("measure process %d: %w", pid, err)
	}
	if u.CPU, err = parseCPU(stat, 2); err != nil {
		return Usage{}, fmt.Errorf("measure process %d: %w", pid, err)
	}
	return u, nil
}

func parseStatus(text string) (u Usage, err error) {
	found := 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB"))
		var into *int64
		switch name {
		case "VmRSS":
			into = &u.Resident
		case "VmHWM":
			into = &u.Peak
		case "Threads":
			if u.Threads, err = strconv.Atoi(value); err != nil {
				return u, fmt.Errorf("read %s: %w", name, err)
			}
			continue
		default:
			continue
		}
		kb, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return u, fmt.Errorf("read %s: %w", name, err)
		}
		*into = kb << 10
		found++
	}
	if found < 2 {
		return u, fmt.Errorf("the process shows no memory: it has ended")
	}
	return u, nil
}

// Family returns the CPU time used by the processes pids, which are a process and its children; the time of ended children counts too. It
// skips a process that has just ended, because its parent counts it.
func Family(pids []int) (sum time.Duration, err error) {
	for _, pid := range pids {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue
		}
		used, err := parseCPU(stat, 4)
		if err != nil {
			return 0, fmt.Errorf("measure process %d: %w", pid, err)
		}
		sum += used
	}
	return sum, nil
}

// parseCPU adds user and system time, the 14th and 15th field of /proc/PID/stat; with a count of 4, also the two fields for children that
// have ended. The second field, the name, may hold any character, so counting begins after its last parenthesis.
func parseCPU(stat []byte, count int) (time.Duration, error) {
	_, rest, ok := cutLast(stat, ')')
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 11+count {
		return 0, fmt.Errorf("/proc/PID/stat has an unknown form")
	}
	var ticks int64
	for _, f := range fields[11 : 11+count] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

func cutLast(b []byte, sep byte) (before, after []byte, ok bool) {
	i := bytes.LastIndexByte(b, sep)
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+1:], true
}
