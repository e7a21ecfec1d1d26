package blackbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// What Go's cache of results knows of a test is the log that the test writes.
func TestATestOfTheProgramDependsOnItsSources(t *testing.T) {
	const inner = "GODWIT_TEST_BUILDS"
	if os.Getenv(inner) != "" {
		blackbox.Build(t, "map", "./tools/map")
		return
	}
	log := filepath.Join(t.TempDir(), "log")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", t.Name(), "-test.testlogfile", log)
	cmd.Env = append(os.Environ(), inner+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"internal/server/app", "api/godwit/v1", "clients/js/src"} {
		if !strings.Contains(string(text), "open "+filepath.Join(blackbox.Root(), folder)+"\n") {
			t.Errorf("its log does not name %s", folder)
		}
	}
}
