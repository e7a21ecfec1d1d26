package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestTheReadmeListsWhatIsRefusedAsNotBuilt compares the README's list of missing features with the settings that are refused for them and
// with the settings' help.
func TestTheReadmeListsWhatIsRefusedAsNotBuilt(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(readme), "\n## Not built yet\n")
	if !ok {
		t.Fatal("the README has no section of what is not built yet")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	m := regexp.MustCompile(`not built yet: ([^.]*)\.`).FindStringSubmatch(section)
	if m == nil {
		t.Fatalf("the README does not list what is refused:\n%s", section)
	}
	listed := strings.Split(m[1], ", ")
	var refused, helped []string
	for key, what := range unbuilt {
		refused = append(refused, what)
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		AddFlags(flags)
		_, err := Load(flags, []string{"GODWIT_" + strings.ToUpper(key) + "=:1"})
		if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "this version has no") {
			t.Errorf("%s is answered %v", key, err)
		}
	}
	for _, f := range fields(&Config{}) {
		if strings.Contains(f.Help, "this version has none") {
			helped = append(helped, unbuilt[f.Key])
		}
	}
	for _, l := range [][]string{listed, refused, helped} {
		slices.Sort(l)
	}
	if !slices.Equal(listed, refused) || !slices.Equal(helped, refused) {
		t.Errorf("the README lists %q, the help of settings %q, and refused is %q", listed, helped, refused)
	}
}
