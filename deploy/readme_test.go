package deploy

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

var (
	dockerRun  = regexp.MustCompile(`(?m)^docker run (.*)$`)
	dockerExec = regexp.MustCompile(`(?m)^docker exec godwit (\S+) (.*)$`)
)

// What the READMEs tell Docker to run fits the image: each port that it publishes, the volume, and the commands in the container.
func TestREADMEsRunTheImage(t *testing.T) {
	_, image := dockerfile(t)
	var ports, entry []string
	volume := ""
	for _, c := range image.Commands {
		switch c := c.(type) {
		case *instructions.ExposeCommand:
			ports = append(ports, c.Ports...)
		case *instructions.VolumeCommand:
			volume = c.Volumes[0]
		case *instructions.EntrypointCommand:
			entry = c.CmdLine
		}
	}
	for _, name := range []string{filepath.Join(root, "README.md"), "README.md"} {
		text := read(t, name)
		runs := dockerRun.FindAllStringSubmatch(text, -1)
		if len(runs) != 1 {
			t.Errorf("%s says %d times docker run", name, len(runs))
			continue
		}
		args := strings.Fields(runs[0][1])
		if args[len(args)-1] != "godwit" || !slices.Contains(args, "-d") || !strings.Contains(text, "docker build -f deploy/Dockerfile -t godwit .\n") {
			t.Errorf("%s runs %q", name, args)
		}
		for i, arg := range args {
			switch arg {
			case "-p":
				if _, inside, _ := strings.Cut(args[i+1], ":"); !slices.Contains(ports, inside) {
					t.Errorf("%s publishes %s of %q", name, args[i+1], ports)
				}
			case "-v":
				if args[i+1] != "godwit:"+volume {
					t.Errorf("%s keeps %s", name, args[i+1])
				}
			}
		}
		if !slices.Contains(args, "-v") || !slices.Contains(args, "--name") {
			t.Errorf("%s runs %q: its data has no name", name, args)
		}
		for _, exec := range dockerExec.FindAllStringSubmatch(text, -1) {
			if exec[1] != entry[0] {
				t.Errorf("%s runs %s in the image", name, exec[1])
			}
			knows(t, strings.Fields(exec[2])...)
		}
	}
}
