package deploy

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

func dockerfile(t *testing.T) (build, image instructions.Stage) {
	t.Helper()
	f, err := os.Open("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	parsed, err := parser.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(parsed.Warnings) > 0 {
		t.Errorf("%+v", parsed.Warnings)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 2 {
		t.Fatalf("%d stages, want one that builds and one that is the image", len(stages))
	}
	return stages[0], stages[1]
}

// TestTheImagesServerIsBuiltFromWhatIsSentToTheEngine runs the first stage in a folder with only the files that .dockerignore allows, and
// takes the second stage's files from it.
func TestTheImagesServerIsBuiltFromWhatIsSentToTheEngine(t *testing.T) {
	build, image := dockerfile(t)
	src := t.TempDir()
	send(t, src)
	for _, c := range build.Commands {
		step, ok := c.(*instructions.RunCommand)
		if !ok || step.CmdLine[0] == "go mod download" { // they are on this machine
			continue
		}
		cmd := exec.Command("/bin/sh", "-c", strings.Join(step.CmdLine, " "))
		cmd.Dir = src
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step.CmdLine, err, out)
		}
	}
	copied := map[string]string{}
	for _, c := range image.Commands {
		if cp, ok := c.(*instructions.CopyCommand); ok {
			copied[cp.DestPath] = filepath.Join(src, strings.TrimPrefix(cp.SourcePaths[0], "/src/"))
		}
	}
	if info, err := os.Stat(copied["/var/lib/godwit"]); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data folder is %v: %v", info, err)
	}
	program := copied["/usr/local/bin/godwit"]
	if out, err := exec.Command(program, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "godwit ") {
		t.Errorf("version: %v\n%s", err, out)
	}
	if out, err := exec.Command(program, "bench", "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "unicast") {
		t.Errorf("bench: %v\n%s", err, out)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 || f.Section(".interp") != nil {
		t.Errorf("it needs what the image has not: %v, %v", libraries, err)
	}
}

// send copies the files that would be sent to a container engine.
func send(t *testing.T, to string) {
	t.Helper()
	f, err := os.Open("Dockerfile.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	patterns, err := ignorefile.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			if d.Name() == "node_modules" || strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			return nil
		}
		if skip, err := ignored.MatchesOrParentMatches(name); err != nil || skip {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheImageServesAsNobodyAndKnowsItsHealth(t *testing.T) {
	_, image := dockerfile(t)
	var env, entry, serve, health []string
	user, volume := "", ""
	ports := []string{}
	for _, c := range image.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.EnvCommand:
			for _, kv := range c.Env {
				env = append(env, kv.Key+"="+kv.Value)
			}
		case *instructions.VolumeCommand:
			volume = c.Volumes[0]
		case *instructions.ExposeCommand:
			ports = append(ports, c.Ports...)
		case *instructions.HealthCheckCommand:
			health = c.Health.Test
		case *instructions.EntrypointCommand:
			entry = c.CmdLine
		case *instructions.CmdCommand:
			serve = c.CmdLine
		}
	}
	if image.BaseName != "scratch" {
		t.Errorf("it is made from %s", image.BaseName)
	}
	if user != "65532:65532" {
		t.Errorf("it runs as %q", user)
	}
	if !slices.Contains(env, "GODWIT_DATA="+volume) {
		t.Errorf("%q is kept, and data goes to %q", volume, env)
	}
	slices.Sort(ports)
	if want := []string{"50051", "6222", "8080"}; !slices.Equal(ports, want) {
		t.Errorf("ports %q, want %q", ports, want)
	}
	if !slices.Equal(entry, []string{"/usr/local/bin/godwit"}) {
		t.Errorf("it starts %q", entry)
	}
	settings(t, serve, env)
	if len(health) < 3 || health[0] != "CMD" || health[1] != entry[0] {
		t.Fatalf("its health is checked with %q", health)
	}
	knows(t, health[2:]...)
}
