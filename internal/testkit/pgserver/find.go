package pgserver

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// oldest is the first version of PostgreSQL that the stores support.
const oldest = 14

// Programs returns the folder of PostgreSQL's programs on this machine.
var Programs = sync.OnceValues(func() (dir string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var dirs []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	packaged, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // as Debian's packages have it
	slices.SortFunc(packaged, func(a, b string) int { return packageVersion(b) - packageVersion(a) })
	if p, err := exec.LookPath("postgres"); err == nil {
		packaged = append(packaged, filepath.Dir(p))
	}
	for _, dir := range append(dirs, packaged...) {
		if isProgram(filepath.Join(dir, "initdb")) && isProgram(filepath.Join(dir, "postgres")) && version(ctx, dir) >= oldest {
			return dir, nil
		}
	}
	return "", errors.New("no PostgreSQL 14 or newer is installed: apt-get install postgresql")
})

func packageVersion(bin string) int {
	v, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return v
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// version returns the major version of the programs in a folder, which print "postgres (PostgreSQL) 15.18 (Debian ...)".
func version(ctx context.Context, dir string) int {
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(out), ") ")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	v, _ := strconv.Atoi(rest[:max(digits, 0)])
	return v
}
