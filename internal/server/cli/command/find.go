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

// MeasuredServer is an environment variable: the path of the program that is measured.
const MeasuredServer = "GODWIT_BENCH_SERVER"

// Find returns where another program of this installation is: beside the running one, or else in PATH.
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
