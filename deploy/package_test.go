package deploy

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// debian holds the fields of the package's description; an unknown field is an error.
type debian struct {
	Name, Arch, Platform, Version, Section, Priority, Maintainer, Description, Homepage, License string

	Depends, Recommends []string
	Contents            []content
	Scripts             map[string]string
}

type content struct {
	Src, Dst, Type string

	Expand bool
	Info   struct {
		Mode int `json:"mode"`
	} `json:"file_info"`
}

func TestThePackageHoldsTheProgramsTheServiceAndItsSettings(t *testing.T) {
	text, err := os.ReadFile("nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var p debian
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		t.Fatal(err)
	}
	held := map[string]content{}
	for _, c := range p.Contents {
		held[c.Dst] = c
		if c.Expand != strings.HasPrefix(c.Src, "${DIST}/") {
			t.Errorf("%s: variables are put in only with expand", c.Src)
		}
		if !c.Expand {
			if _, err := os.Stat(filepath.Join(root, c.Src)); err != nil {
				t.Error(err)
			}
		}
	}
	if held["/usr/bin/godwit"].Info.Mode != 0o755 || held["/usr/bin/godwit-bench"].Info.Mode != 0o755 || held["/usr/lib/systemd/system/godwit.service"].Src == "" {
		t.Errorf("it holds %q", slices.Sorted(maps.Keys(held)))
	}
	config := held["/etc/godwit/godwit.toml"]
	if config.Type != "config|noreplace" || config.Info.Mode != 0o640 {
		t.Errorf("settings are %+v: an upgrade must not replace them", config)
	}
	file, err := filepath.Abs(filepath.Join(root, config.Src))
	if err != nil {
		t.Fatal(err)
	}
	settings(t, []string{"serve", "--config", file}, []string{"GODWIT_DATA=" + t.TempDir()})
	for when, script := range p.Scripts {
		if out, err := exec.Command("sh", "-n", filepath.Join(root, script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", when, err, out)
		}
	}
}
