package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// listed is a file of a package.
type listed struct{ mode, owner string }

// debFiles lists the files of a Debian package.
func debFiles(t *testing.T, deb string) map[string]listed {
	t.Helper()
	files := map[string]listed{}
	for line := range strings.Lines(runIn(t, "", nil, tool(t, "dpkg-deb"), "--contents", deb)) {
		f := strings.Fields(line)
		files[strings.TrimSuffix(strings.TrimPrefix(f[5], "."), "/")] = listed{f[0], f[1]}
	}
	return files
}

// rpmFiles lists the files of an rpm.
func rpmFiles(t *testing.T, rpm string) map[string]listed {
	t.Helper()
	files := map[string]listed{}
	const format = "[%{FILENAMES} %{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME}\n]"
	for line := range strings.Lines(runIn(t, "", nil, tool(t, "rpm"), "--dbpath", t.TempDir(), "-qp", "--nosignature", "--queryformat", format, rpm)) {
		f := strings.Fields(line)
		files[f[0]] = listed{f[1], f[2]}
	}
	return files
}

func TestPackagesHoldManualCompletionsAndService(t *testing.T) {
	dist := handedOut(t)
	for kind, files := range map[string]map[string]listed{
		"deb": debFiles(t, one(t, dist, "*.deb")),
		"rpm": rpmFiles(t, one(t, dist, "*.rpm")),
	} {
		zsh := map[string]string{"deb": "zsh/vendor-completions/_godwit", "rpm": "zsh/site-functions/_godwit"}[kind]
		for _, p := range append(slices.Clone(pages), zsh, "fish/vendor_completions.d/godwit.fish", "doc/godwit/CHANGELOG.md") {
			if got := files["/usr/share/"+p]; got != (listed{"-rw-r--r--", "root/root"}) {
				t.Errorf("%s: %s is %+v", kind, p, got)
			}
		}
		for _, p := range []string{"/usr/bin/godwit", "/usr/bin/godwit-bench"} {
			if got := files[p]; got != (listed{"-rwxr-xr-x", "root/root"}) {
				t.Errorf("%s: %s is %+v", kind, p, got)
			}
		}
		if files["/usr/lib/systemd/system/godwit.service"].mode != "-rw-r--r--" || files["/etc/godwit/godwit.toml"].mode != "-rw-r-----" {
			t.Errorf("%s: it has no service, or settings for everybody to read", kind)
		}
		licence := map[string]string{"deb": "/usr/share/doc/godwit/copyright", "rpm": "/usr/share/licenses/godwit/LICENSE"}[kind]
		if _, ok := files[licence]; !ok {
			t.Errorf("%s: it has no %s", kind, licence)
		}
		if t.Failed() {
			t.Logf("%s: %v", kind, files)
		}
	}
}

func TestAnRPMSaysWhoseFilesAreAndWhichAnAdministratorKeeps(t *testing.T) {
	rpm := one(t, handedOut(t), "*.rpm")
	files := rpmFiles(t, rpm)
	for path, want := range map[string]listed{
		"/etc/godwit":             {"drwxr-x---", "root/godwit"},
		"/etc/godwit/godwit.toml": {"-rw-r-----", "root/godwit"},
		"/var/lib/godwit":         {"drwx------", "godwit/godwit"},
	} {
		if files[path] != want {
			t.Errorf("%s is %+v, want %+v", path, files[path], want)
		}
	}
	ask := func(what ...string) string {
		return runIn(t, "", nil, tool(t, "rpm"), append([]string{"--dbpath", t.TempDir(), "-qp", "--nosignature"}, append(what, rpm)...)...)
	}
	const noreplace = "[%{FILENAMES} %{FILEFLAGS:fflags}\n]"
	if got := ask("--queryformat", noreplace); !strings.Contains(got, "/etc/godwit/godwit.toml cn\n") {
		t.Errorf("an upgrade replaces settings:\n%s", got)
	}
	if got := ask("--requires"); !strings.Contains(got, "/usr/sbin/useradd") {
		t.Errorf("it needs %s", got)
	}
	scripts := ask("--scripts")
	for _, of := range []string{"preinstall", "postinstall", "preuninstall", "postuninstall"} {
		if !strings.Contains(scripts, of+" scriptlet (using /bin/sh):") {
			t.Errorf("there is no %s:\n%s", of, scripts)
		}
	}
	if got := ask("--queryformat", "%{URL} %{LICENSE} %{SUMMARY}"); got != "https://example.net/godwit Apache-2.0 Notification server that you run yourself" {
		t.Errorf("it is %q", got)
	}
}

func TestADebianPackageSaysWhatItIs(t *testing.T) {
	deb := one(t, handedOut(t), "*.deb")
	fields := runIn(t, "", nil, tool(t, "dpkg-deb"), "--field", deb)
	for _, want := range []string{"Package: godwit\n", "Homepage: https://example.net/godwit\n", "Depends: adduser\n", "Description: Notification server that you run yourself\n"} {
		if !strings.Contains(fields, want) {
			t.Errorf("it has no %q:\n%s", want, fields)
		}
	}
	dir := t.TempDir()
	runIn(t, "", nil, tool(t, "dpkg-deb"), "--control", deb, dir)
	conffiles, err := os.ReadFile(filepath.Join(dir, "conffiles"))
	if err != nil || strings.TrimSpace(string(conffiles)) != "/etc/godwit/godwit.toml" {
		t.Errorf("an upgrade asks about %q (%v)", conffiles, err)
	}
}

// What a package is called before its release sorts before the release: an upgrade must find it.
func TestAPreReleaseIsOlderThanItsRelease(t *testing.T) {
	dist := handedOut(t)
	share := unpack(t, one(t, dist, "godwit-*-linux-amd64.tar.gz"))
	from := one(t, share, "godwit-*")
	dir := t.TempDir()
	for _, kind := range []string{"deb", "rpm"} {
		runIn(t, root, []string{"ARCH=amd64", "VERSION=1.0.0-rc.5", "HOMEPAGE=https://example.net", "DIST=" + from}, nfpm(t), "package", "--config", "deploy/nfpm.yaml", "--packager", kind, "--target", dir+"/")
	}
	called := strings.TrimSpace(runIn(t, "", nil, tool(t, "dpkg-deb"), "--field", one(t, dir, "*.deb"), "Version"))
	runIn(t, "", nil, tool(t, "dpkg"), "--compare-versions", called, "lt", "1.0.0")
	rpm := runIn(t, "", nil, tool(t, "rpm"), "--dbpath", t.TempDir(), "-qp", "--nosignature", "--queryformat", "%{VERSION}", one(t, dir, "*.rpm"))
	older := runIn(t, "", nil, tool(t, "rpm"), "--eval", `%{lua:print(rpm.vercmp("`+rpm+`", "1.0.0"))}`)
	if strings.TrimSpace(older) != "-1" {
		t.Errorf("%s compares with 1.0.0 as %s", rpm, older)
	}
}

// nfpm returns the packager that make dist uses.
func nfpm(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, ".bin", "nfpm"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// stage is a system in a folder on which scripts of packages run: commands that would change it are noted instead.
type stage struct {
	*testing.T
	root, bin, notes string
}

// newStage makes a system on which the server's service is in a state, and a user may exist already.
func newStage(t *testing.T, user, enabled, active bool) *stage {
	t.Helper()
	s := &stage{t, t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "notes")}
	dirs := []string{"/run/systemd/system", "/etc/godwit", "/var/lib"}
	if user {
		dirs = append(dirs, "/var/lib/godwit")
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(s.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	note := `echo "$(basename "$0") $*" >>"` + s.notes + `"` + "\n"
	exits := func(yes bool) string {
		if yes {
			return "exit 0"
		}
		return "exit 1"
	}
	for name, text := range map[string]string{
		"getent": exits(user), "adduser": note, "useradd": note, "groupadd": note, "install": note, "chown": note, "chmod": note,
		"systemctl": `case "$1" in is-enabled) ` + exits(enabled) + `;; is-active) ` + exits(active) + `;; esac` + "\n" + note,
	} {
		if err := os.WriteFile(filepath.Join(s.bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil { // a program
			t.Fatal(err)
		}
	}
	return s
}

// runs runs a script and returns what it did, and what it said.
func (s *stage) runs(script string, args ...string) (did, said string) {
	s.Helper()
	said = runIn(s.T, "", []string{"PATH=" + s.bin + ":/usr/bin:/bin", "DPKG_ROOT=" + s.root}, "/bin/sh", append([]string{"-e", script}, args...)...)
	notes, err := os.ReadFile(s.notes)
	if err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	if err := os.RemoveAll(s.notes); err != nil {
		s.Fatal(err)
	}
	return strings.ReplaceAll(string(notes), s.root, ""), said
}

var started = regexp.MustCompile(`systemctl (start|enable|restart)`)

func TestAnUpgradeRestartsWhatRunsAndChangesNothingElse(t *testing.T) {
	s := newStage(t, true, true, true)
	for _, call := range []struct{ script, want string }{
		{"deb/prerm upgrade 0.2.0", ""},
		{"deb/postinst configure 0.1.0", "systemctl daemon-reload\nsystemctl try-restart godwit\n"},
		{"deb/postrm upgrade 0.2.0", "systemctl daemon-reload\n"},
		{"rpm/pre 2", ""},
		{"rpm/post 2", "systemctl daemon-reload\nsystemctl try-restart godwit\n"},
		{"rpm/preun 1", ""},
		{"rpm/postun 1", "systemctl daemon-reload\n"},
	} {
		f := strings.Fields(call.script)
		if did, said := s.runs(f[0], f[1:]...); did != call.want || said != "" {
			t.Errorf("%s did\n%sand said %q, want\n%s", call.script, did, said, call.want)
		}
	}
}

func TestAFirstInstallationMakesTheUserAndStartsNothing(t *testing.T) {
	s := newStage(t, false, false, false)
	did, said := s.runs("deb/postinst", "configure")
	for _, want := range []string{"adduser --system --group", "install -d -m 0700 -o godwit -g godwit /var/lib/godwit\n", "chown root:godwit /etc/godwit /etc/godwit/godwit.toml\n", "chmod 0750 /etc/godwit\n"} {
		if !strings.Contains(did, want) {
			t.Errorf("it did not %q but\n%s", want, did)
		}
	}
	if started.MatchString(did) || !strings.Contains(said, "systemctl enable --now godwit") {
		t.Errorf("it did\n%sand said %q", did, said)
	}
	did, _ = s.runs("rpm/pre", "1")
	if did != "groupadd --system godwit\nuseradd --system --gid godwit --home-dir /var/lib/godwit --no-create-home --shell /sbin/nologin --comment Godwit notification server godwit\n" {
		t.Errorf("the rpm did\n%s", did)
	}
	if did, said = s.runs("rpm/post", "1"); started.MatchString(did) || !strings.Contains(said, "systemctl enable --now godwit") {
		t.Errorf("the rpm did\n%sand said %q", did, said)
	}
}

// A package that was removed and not purged is installed like an upgrade, but its service is off.
func TestWhoInstallsAgainIsToldHowToStart(t *testing.T) {
	s := newStage(t, true, false, false)
	if did, said := s.runs("deb/postinst", "configure", "0.1.0"); started.MatchString(did) || !strings.Contains(said, "systemctl enable --now godwit") {
		t.Errorf("it did\n%sand said %q", did, said)
	}
}

func TestARemovalStopsTheServerAndLeavesItsData(t *testing.T) {
	for _, calls := range [][]string{
		{"deb/prerm remove", "deb/postrm remove", "deb/postrm purge"},
		{"rpm/preun 0", "rpm/postun 0"},
	} {
		s := newStage(t, true, true, true)
		var did, said string
		for _, call := range calls {
			f := strings.Fields(call)
			d, what := s.runs(f[0], f[1:]...)
			did, said = did+d, said+what
		}
		if !strings.Contains(did, "systemctl disable --now godwit\n") || !strings.Contains(said, "notifications stay in /var/lib/godwit") {
			t.Errorf("%q did\n%sand said %q", calls, did, said)
		}
		if _, err := os.Stat(filepath.Join(s.root, "var/lib/godwit")); err != nil {
			t.Error(err)
		}
	}
}
