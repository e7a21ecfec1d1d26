package foreign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/testkit/freeport"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// block is a fenced block of a page that is run, with the lines that its output must contain, in order.
type block struct {
	line   int
	script string
	output []string
}

// blocks returns the blocks of a page that follow <!-- run -->, each with the block after a following <!-- output -->.
func blocks(text string) []block {
	var found []block
	mark := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		switch {
		case line == "<!-- run -->" || line == "<!-- output -->":
			mark = line
		case strings.HasPrefix(line, "```"):
			start := i + 1
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			}
			body := lines[start:min(i, len(lines))]
			switch {
			case mark == "<!-- run -->":
				found = append(found, block{line: start, script: strings.Join(body, "\n") + "\n"})
			case mark == "<!-- output -->" && len(found) > 0:
				found[len(found)-1].output = body
			}
			mark = ""
		case line != "":
			mark = ""
		}
	}
	return found
}

func docsPages(t *testing.T) []string {
	t.Helper()
	found := []string{filepath.Join(blackbox.Root(), "README.md")}
	for _, dir := range []string{"docs", "deploy"} {
		err := filepath.WalkDir(filepath.Join(blackbox.Root(), dir), func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(p, ".md") {
				found = append(found, p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// TestCommandsOfTheDocumentationWork runs each page's blocks in order, in one folder and one environment, with a separate server for each
// page.
func TestCommandsOfTheDocumentationWork(t *testing.T) {
	curl := blackbox.Tool(t, "curl")
	ran := 0
	all := docsPages(t)
	if testing.Short() {
		all = all[:1] // the README
	}
	for _, page := range all {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		all := blocks(string(text))
		if len(all) == 0 {
			continue
		}
		ran += len(all)
		name, err := filepath.Rel(blackbox.Root(), page)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			if installs(all) {
				thorough.IfChanged(t, "clients", "each client's own test")
			}
			runPage(t, all, curl)
		})
	}
	if ran < 10 && !testing.Short() {
		t.Errorf("only %d blocks were found", ran)
	}
}

func runPage(t *testing.T, all []block, curl string) {
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	dir := t.TempDir()
	bin := filepath.Join(dir, ".bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(blackbox.Binary(t, false), filepath.Join(bin, "godwit")); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), checkout(t, all, dir)...)
	env = append(env, "PATH="+bin+":"+os.Getenv("PATH")+":"+filepath.Dir(curl), "GODWIT_URL="+server.URL(""), "GODWIT_DATA="+server.Dir)
	places := []string{"localhost:8080", server.HTTP, "localhost:50051", server.GRPC}
	if slices.ContainsFunc(all, func(b block) bool { return strings.Contains(b.script, redisPort) }) {
		probes, release, err := freeport.Loopback(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(release)
		places = append(places, redisPort, redistest.Start(t).Addr(), "localhost:9091", probes)
	}
	here := strings.NewReplacer(places...)
	for _, b := range all {
		// Some blocks fetch modules and build: only the end of the test limits them.
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", here.Replace(b.script))
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("block at line %d: %v\n%s", b.line, err, out)
		}
		if err := printsInOrder(string(out), b.output); err != nil {
			t.Errorf("block at line %d: %v\nit printed\n%s", b.line, err, out)
		}
	}
}

// installs reports whether blocks install clients from a checkout, which takes most of the time of all pages.
func installs(all []block) bool {
	return slices.ContainsFunc(all, func(b block) bool { return strings.Contains(b.script, "godwit/clients/") })
}

// checkout copies the source to the folder of pages that begin in a checkout. It returns an environment in which their downloads are found
// without a network.
func checkout(t *testing.T, all []block, dir string) (env []string) {
	t.Helper()
	if !installs(all) {
		return nil
	}
	for _, tool := range []string{"go", "python3", "npm"} {
		blackbox.Tool(t, tool)
	}
	wheels := filepath.Join(blackbox.Root(), ".bin", "wheels")
	for _, made := range []string{wheels, filepath.Join(blackbox.Root(), "clients", "js", "node_modules")} {
		if _, err := os.Stat(made); err != nil {
			blackbox.Skip(t, "%v: run make test-tools", err)
		}
	}
	if err := os.Symlink(blackbox.Root(), filepath.Join(dir, "godwit")); err != nil {
		t.Fatal(err)
	}
	return []string{
		"GOPROXY=off", "GOWORK=",
		"PIP_NO_INDEX=1", "PIP_FIND_LINKS=" + wheels, "PIP_DISABLE_PIP_VERSION_CHECK=1",
		"npm_config_prefer_offline=true", "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false",
	}
}

// redisPort is the address of Redis in the pages.
const redisPort = "localhost:6379"

// printsInOrder searches the output for each line, after the place of the previous one.
func printsInOrder(printed string, lines []string) error {
	for _, line := range lines {
		line = strings.TrimSpace(line)
		_, after, ok := strings.Cut(printed, line)
		if !ok {
			return fmt.Errorf("%q is not printed, or not in this order", line)
		}
		printed = after
	}
	return nil
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range docsPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			}
		}
	}
}
