package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProgressSaysWhatIsLeftOnlyWhereItIsKnown(t *testing.T) {
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for total, want := range map[int64]string{0: "50 endpoints, 5/s", 40: "50 endpoints, 5/s, 25 %, 30s left"} {
		m := &meter{what: "endpoints", total: total, begun: begun}
		m.add(50)
		if _, err := io.Copy(io.Discard, m.reader(strings.NewReader("ten bytes!"))); err != nil {
			t.Fatal(err)
		}
		if got := m.text(begun.Add(10 * time.Second)); got != want {
			t.Errorf("of %d bytes: %s, want %s", total, got, want)
		}
	}
}

func TestTheLastLineOfTopTellsOfTroubleInRed(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "screen"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, c := range []struct {
		trouble error
		foot    string
	}{
		{nil, "\x1b[" + faint + "mevery 2s   o oldest"},
		{errors.New("the server\x1b is away"), "\x1b[" + red + "mthe server"},
	} {
		if err := out.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if err := (&top{p: &program{colour: true}, by: "oldest", every: 2 * time.Second, trouble: c.trouble}).draw(out); err != nil {
			t.Fatal(err)
		}
		screen, err := os.ReadFile(out.Name())
		if lines := strings.Split(string(screen), "\r\n"); err != nil || !strings.HasPrefix(lines[len(lines)-1], c.foot) {
			t.Errorf("with trouble %v the last line is %q, %v", c.trouble, lines[len(lines)-1], err)
		}
	}
}
