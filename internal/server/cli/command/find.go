package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Names of the programs of an installation.
const (
	ServerProgram = "godwit"
	BenchProgram  = "godwit-bench"
)

// MeasuredServer is the environment variable with the path of the measured program.
const MeasuredServer = "GODWIT_BENCH_SERVER"

// Find returns the path of another program of this installation: beside the running one, or else in PATH.
func Find(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	if resolved, err := filepath.EvalSymlinks(self); err == nil {
		self = resolved
	}
	if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find %s: there is none in %s, nor in PATH", name, filepath.Dir(self))
	}
	return filepath.Abs(path)
}
