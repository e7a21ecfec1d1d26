package meter

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine describes the machine of a measurement.
type Machine struct {
	At     time.Time `json:"at"`
	OS     string    `json:"os"`
	Kernel string    `json:"kernel,omitempty"`
	CPU    string    `json:"cpu,omitempty"`
	Cores  int       `json:"cores"`
	Memory int64     `json:"memory_bytes,omitempty"`
	Load   float64   `json:"load_before"` // load average of the last minute before the measurement, from other programs
	Go     string    `json:"go"`
	Disk   *Disk     `json:"disk,omitempty"` // disk that holds the servers' data
}

// Describe describes this machine, and the disk that holds dir. Unknown values stay empty.
func Describe(dir string) Machine {
	m := Here()
	m.Disk = probe(dir)
	return m
}

// Here describes this machine without its disk.
func Here() Machine {
	m := Machine{At: time.Now().UTC().Truncate(time.Second), OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	m.Kernel = firstLine("/proc/sys/kernel/osrelease")
	m.CPU = value("/proc/cpuinfo", "model name")
	kb, _, _ := strings.Cut(value("/proc/meminfo", "MemTotal"), " ")
	if n, err := strconv.ParseInt(kb, 10, 64); err == nil {
		m.Memory = n << 10
	}
	load, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	if f, err := strconv.ParseFloat(load, 64); err == nil {
		m.Load = f
	}
	return m
}

// Stolen returns the CPU time that a virtual machine's host has given to others since the start, over all cores; 0 if unknown. A program
// that loses a core for 20 ms answers 20 ms late.
func Stolen() time.Duration {
	return parseStolen(firstLine("/proc/stat"))
}

// parseStolen returns the eighth number of the line for all cores in /proc/stat.
func parseStolen(line string) time.Duration {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0
	}
	ticks, err := strconv.ParseInt(fields[8], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ticks) * clockTick
}

func firstLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

// value returns the value of a "name : value" line in a file.
func value(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func (m Machine) String() string {
	s := fmt.Sprintf("%d cores %s", m.Cores, m.CPU)
	if m.Memory > 0 {
		s += fmt.Sprintf(", %d GB", (m.Memory+1<<29)>>30)
	}
	s += fmt.Sprintf(", %s %s, %s, load before %.1f", m.OS, m.Kernel, m.Go, m.Load)
	if m.Disk != nil {
		s += "; " + m.Disk.String()
	}
	return s
}
