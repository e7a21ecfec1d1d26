package foreign

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// container is a server with a root filesystem of its own, which has what the image has: the program and an empty data folder.
type container struct {
	*testing.T
	root, port string
	env        []string
}

// inImage is the path of the program in the image.
const inImage = "/usr/local/bin/godwit"

func newContainer(t *testing.T) *container {
	t.Helper()
	c := &container{T: t, root: t.TempDir()}
	_, c.port, _ = strings.Cut(blackbox.Free(t), ":")
	for _, dir := range []string{"usr/local/bin", "var/lib/godwit", "tmp"} {
		if err := os.MkdirAll(filepath.Join(c.root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(blackbox.Binary(t, false))
	if err != nil {
		t.Fatal(err)
	}
	blackbox.WriteProgram(t, filepath.Join(c.root, inImage), text)
	c.env = []string{"GODWIT_DATA=/var/lib/godwit", "GODWIT_HTTP_ADDR=127.0.0.1:" + c.port, "GODWIT_GRPC_ADDR=127.0.0.1:0"}
	if out, err := c.exec("version").CombinedOutput(); err != nil {
		blackbox.Skip(t, "a root filesystem of its own needs user namespaces: %v\n%s", err, out)
	}
	return c
}

// exec is docker exec: the program within the container.
func (c *container) exec(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.Context(), inImage, args...)
	cmd.Dir, cmd.Env = "/", c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: c.root, Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	return cmd
}

// run is docker run: it starts the server and waits until it is ready.
func (c *container) run(args ...string) {
	c.Helper()
	log, err := os.Create(filepath.Join(c.TempDir(), "log"))
	if err != nil {
		c.Fatal(err)
	}
	cmd := c.exec(append([]string{"serve"}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
		if text, err := os.ReadFile(log.Name()); c.Failed() && err == nil {
			c.Logf("log of the container:\n%s", text)
		}
	})
	if err := blackbox.Poll(c.Context(), blackbox.Patience, func() error { return c.exec("ready").Run() }); err != nil {
		c.Fatal(err)
	}
}

// person is somebody new outside of the container: with the program and common tools, and without any file of the server's.
type person struct {
	*container
	home string
	env  []string
}

func (c *container) person(env ...string) *person {
	c.Helper()
	p := &person{container: c, home: c.TempDir()}
	bin := c.TempDir()
	docker := fmt.Sprintf("#!/bin/sh\n# docker exec NAME godwit ARGS…\nshift 3\nexec %s --user --map-root-user %s %s %s \"$@\"\n",
		blackbox.Tool(c, "unshare"), blackbox.Tool(c, "chroot"), c.root, inImage)
	script := filepath.Join(bin, "docker")
	blackbox.WriteProgram(c, script, []byte("#!/bin/sh\nexec env -i "+strings.Join(c.env, " ")+" "+script+"-exec \"$@\"\n"))
	blackbox.WriteProgram(c, script+"-exec", []byte(docker))
	if err := os.Symlink(blackbox.Binary(c, false), filepath.Join(bin, "godwit")); err != nil {
		c.Fatal(err)
	}
	p.env = append([]string{"HOME=" + p.home, "PATH=" + bin + ":" + filepath.Dir(blackbox.Tool(c, "curl")) + ":/usr/bin:/bin"}, env...)
	return p
}

// types runs what a page says, in an empty folder.
func (p *person) types(script string) string {
	p.Helper()
	cmd := exec.CommandContext(p.Context(), "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(script, "localhost:8080", "localhost:"+p.port))
	cmd.Dir, cmd.Env = p.TempDir(), p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.Fatalf("%s\n%v\n%s", script, err, out)
	}
	if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
		p.Errorf("%s\nleft files in the current folder: %v, %v", script, left, err)
	}
	return string(out)
}

func guide(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(blackbox.Root(), "docs", "guides", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestServerInAContainerIsManagedFromOutside(t *testing.T) {
	_, section, _ := strings.Cut(guide(t, "control.md"), "### In a container\n")
	_, section, _ = strings.Cut(section, "```sh\n")
	script, _, found := strings.Cut(section, "```")
	start, script, both := strings.Cut(script, "\n")
	if !found || !both || !strings.HasPrefix(start, "docker run ") {
		t.Fatal("the guide has no section about containers that begins with docker run")
	}
	c := newContainer(t)
	c.run()
	p := c.person()
	printed := p.types(script + `
godwit app list
godwit channel list --app rides
token=$(godwit token --app rides --recipient ann)
export GODWIT_API_KEY=$(godwit key create --app rides --role publish --json | sed 's/.*"key":"\([^"]*\)".*/\1/')
godwit publish ann --title Hi --id n1
GODWIT_TOKEN=$token godwit listen ann --ack -n 1
godwit status n1
`)
	if err := printsInOrder(printed, []string{"App rides is ready", "API key", "rides", "webpush", "stored n1", "Hi", "acked"}); err != nil {
		t.Errorf("%v\nit printed\n%s", err, printed)
	}
	if kept, err := os.ReadDir(filepath.Join(c.root, "var/lib/godwit")); err != nil || len(kept) == 0 {
		t.Errorf("the data is not in the container: %v, %v", kept, err)
	}
}

func TestNewcomerFollowsGettingStartedWithAServerInAContainer(t *testing.T) {
	c := newContainer(t)
	c.run("--dev")
	var script strings.Builder
	var want []string
	for _, b := range blocks(guide(t, "getting-started.md")) {
		script.WriteString(b.script)
		want = append(want, b.output...)
	}
	if len(want) < 5 {
		t.Fatalf("only %d lines of output are in the guide", len(want))
	}
	printed := c.person().types(script.String())
	if err := printsInOrder(printed, want); err != nil {
		t.Errorf("%v\nit printed\n%s", err, printed)
	}
}
