package config_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/server/config"
)

// evaluate reads a file of Dhall.
func evaluate(t *testing.T, text string, within time.Duration) (map[string]any, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.dhall")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.ReadDhall(name, within)
}

func TestDhallIsEvaluatedAsTheServiceDoes(t *testing.T) {
	t.Setenv("GODWIT_TEST_EMPTY", "")
	t.Setenv("GODWIT_TEST_BAD", "0 0")
	t.Setenv("GODWIT_TEST_PATH", "./seven.dhall")
	t.Setenv("HOME", "")
	t.Chdir(t.TempDir())
	if err := os.WriteFile("seven.dhall", []byte("7"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]any{
		`env:GODWIT_TEST_ABSENT ? 7`:                              int64(7),
		`env:GODWIT_TEST_EMPTY ? 7`:                               int64(7),
		`env:GODWIT_TEST_PATH`:                                    int64(7),
		`env:GODWIT_TEST_BAD ? 7`:                                 int64(7),
		`let U = < A : Natural | B > in U.A 7`:                    int64(7),
		`let U = < A : Natural | B > in U.B`:                      "B",
		`merge { None = 1, Some = \(n : Natural) -> n } (Some 7)`: int64(7),
		`let T = { a : Natural } //\\ { b : Text } let x : T = { a = 7, b = "" } in x.a`: int64(7),
		`({ a = { b = 1 } } with a.b = 7).a.b`:                                           int64(7),
	} {
		if got, err := evaluate(t, "{ a = "+text+" }", time.Minute); err != nil || got["a"] != want {
			t.Errorf("%s: %v, %v, want %v", text, got["a"], err, want)
		}
	}
}

// A variable that is imported without `as Text` is read as Dhall. The error names the mistake and not the value, which may be a key.
func TestErrorsOfDhallHoldNoSecret(t *testing.T) {
	for _, secret := range []string{"sekret", "sekret 1", "{ sekret", `"sekret`, "sekret-1/2==", "31415926535897932384626", `assert : "sekret" === "x"`} {
		t.Setenv("GODWIT_TEST_KEY", secret)
		_, err := evaluate(t, "{ key = env:GODWIT_TEST_KEY }", time.Minute)
		if err == nil || strings.Contains(err.Error(), "sekret") || strings.Contains(err.Error(), "314159") {
			t.Errorf("%s: %v", secret, err)
		}
	}
	if _, err := evaluate(t, "{ a = portt }", time.Minute); err == nil || !strings.Contains(err.Error(), "portt") {
		t.Errorf("a mistake in the file itself: %v", err)
	}
}

func TestImportThatNeverComesEnds(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = evaluate(t, "http://"+ln.Addr().String()+"/x.dhall", time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "did not come in 1ms") {
		t.Error(err)
	}
	_ = ln.Close() // resets the connection, so that the evaluation ends
}
