package foreign

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

func files(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir(plugin(), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".php" {
			list = append(list, path)
		}
		return err
	})
	if err != nil || len(list) < 5 {
		t.Fatalf("the plug-in's files: %v, %v", list, err)
	}
	return list
}

func runCheck(t *testing.T, files ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), blackbox.Tool(t, "php"), append([]string{"../wordpress/testdata/check.php"}, files...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return string(out)
}

func TestTheFilesKeepToWordPresssRules(t *testing.T) {
	blackbox.Long(t)
	php := blackbox.Tool(t, "php")
	for _, file := range files(t) {
		if out, err := exec.CommandContext(t.Context(), php, "-l", file).CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
	}
	if out := runCheck(t, files(t)...); out != "" {
		t.Error(out)
	}
}

func TestTheCheckSeesWhatIsWrong(t *testing.T) {
	blackbox.Long(t)
	const good = "<?php\ndefined( 'ABSPATH' ) || exit;\n"
	for code, want := range map[string]string{
		"<?php\n":         "can be opened by itself",
		good + "echo $x;": "prints what is not escaped",
		good + "echo '<p>' . __( 'a', 'godwit' );":      "prints what is not escaped",
		good + "printf( '%s %s', esc_html( $x ), $y );": "prints what is not escaped",
		good + "$x = $_POST['x'];":                      "takes $_POST as it came",
		good + "$x = sanitize_key( $_GET['x'] );":       "leaves slashes in $_GET",
		good + "function send() {}":                     "not called godwit_",
		good + "const SEND = 1;":                        "not called GODWIT_",
		good + "$x = str_contains( $y, 'a' );":          "newer PHP",
		good + "$x = $y?->z;":                           "newer PHP",
		good + "eval( $x );":                            "has eval",
		good + "    $x = 1;":                            "tabs",
		good + "echo esc_html( $x ) . '<br>'; printf( '%d', absint( $y ) ); $z = sanitize_key( wp_unslash( $_GET['z'] ) ); if ( empty( $_POST['a'] ) ) { godwit_a(); }": "",
	} {
		file := filepath.Join(t.TempDir(), "a.php")
		if err := os.WriteFile(file, []byte(code+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := runCheck(t, file); !strings.Contains(out, want) || want == "" && out != "" {
			t.Errorf("%s\nfound: %s, want %q", code, out, want)
		}
	}
}
