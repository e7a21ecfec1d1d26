package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// recipe holds the fields of the packages' description; an unknown field is an error.
type recipe struct {
	Name, Arch, Platform, Version, Section, Priority, Maintainer, Description, Homepage, License string

	Recommends []string
	Contents   []content
	RPM        struct{ Summary string }
	Overrides  map[string]struct {
		Depends []string
		Scripts map[string]string
	}
}

type content struct {
	Src, Dst, Type, Packager string

	Expand bool
	Info   struct {
		Mode         int `json:"mode"`
		Owner, Group string
	} `json:"file_info"`
}

func TestEachFileOfAPackageExistsAndItsScriptsAreShell(t *testing.T) {
	text, err := os.ReadFile("nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var p recipe
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		t.Fatal(err)
	}
	config := 0
	for _, c := range p.Contents {
		if c.Expand != strings.HasPrefix(c.Src, "${DIST}/") {
			t.Errorf("%s: variables are put in only with expand", c.Src)
		}
		if !c.Expand {
			if _, err := os.Stat(filepath.Join(root, c.Src)); err != nil {
				t.Error(err)
			}
		}
		if c.Dst != "/etc/godwit/godwit.toml" {
			continue
		}
		config++
		if c.Type != "config|noreplace" || c.Info.Mode != 0o640 {
			t.Errorf("settings are %+v: an upgrade must not replace them", c)
		}
		file, err := filepath.Abs(filepath.Join(root, c.Src))
		if err != nil {
			t.Fatal(err)
		}
		settings(t, []string{"serve", "--config", file}, []string{"GODWIT_DATA=" + t.TempDir()})
	}
	if config != 2 {
		t.Errorf("%d packages have settings, want both", config)
	}
	for kind, o := range p.Overrides {
		for when, script := range o.Scripts {
			if out, err := exec.Command("sh", "-n", filepath.Join(root, script)).CombinedOutput(); err != nil {
				t.Errorf("%s, %s: %v\n%s", kind, when, err, out)
			}
		}
	}
}
