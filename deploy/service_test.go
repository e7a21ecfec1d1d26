package deploy

import (
	"os"
	"strings"
	"testing"
)

func TestTheServiceStartsWithSettingsThatThereAre(t *testing.T) {
	unit, err := os.ReadFile("godwit.service")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]string{}
	for line := range strings.Lines(string(unit)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			values[key] = append(values[key], value)
		}
	}
	if len(values["ExecStart"]) != 1 {
		t.Fatalf("%d commands to start", len(values["ExecStart"]))
	}
	args := strings.Fields(values["ExecStart"][0])
	if args[0] != "/usr/local/bin/godwit" {
		t.Errorf("it starts %s", args[0])
	}
	args = args[1:]
	for i, arg := range args { // replaces the file that README.md tells people to write by one on this machine
		if arg == "/etc/godwit/godwit.toml" {
			args[i] = toml(t)
		}
	}
	settings(t, args, values["Environment"])
}

// toml is the configuration that README.md shows.
func toml(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "```toml\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatal("README.md shows no configuration")
	}
	name := t.TempDir() + "/godwit.toml"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
