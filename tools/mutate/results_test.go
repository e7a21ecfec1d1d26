package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestARunGoesOnWhereOneStopped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results", "seed-1.jsonl")
	run := func(resume bool) (out string) {
		var b bytes.Buffer
		d := drawing{
			patterns: []string{"./testdata/sample"}, only: regexp.MustCompile("Half|Untested bound"), count: 100, seed: 1,
			survivors: filepath.Join(t.TempDir(), "none"), results: file, resume: resume, out: &b,
		}
		if err := d.draw(t.Context()); err == nil { // fails: the mutant of the bound in Half survives, as do those of untested code
			t.Errorf("no error in\n%s", &b)
		}
		return b.String()
	}
	first := run(false)
	if n := strings.Count(first, "noticed  "); n != 4 || strings.Count(first, "SURVIVED ") != 3 || strings.Count(first, "no test comes by") != 2 {
		t.Errorf("begun with\n%s", first)
	}
	if again := run(true); !strings.Contains(again, "4 of them were noticed before") || strings.Contains(again, "noticed  ") || strings.Count(again, "SURVIVED ") != 3 {
		t.Errorf("gone on with\n%s", again)
	}
	if anew := run(false); strings.Count(anew, "noticed  ") != 4 {
		t.Errorf("begun anew with\n%s", anew)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("{\"mut") // a run was killed
	_ = f.Close()
	if again := run(true); !strings.Contains(again, "4 of them were noticed before") {
		t.Errorf("after a line that is not whole\n%s", again)
	}
	if again := run(true); !strings.Contains(again, "4 of them were noticed before") {
		t.Errorf("after it was gone on from\n%s", again)
	}
}

func TestTheRedTestIsFound(t *testing.T) {
	for out, want := range map[string]string{
		"ok\n": "",
		"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/B (0.00s)\n":                              "^TestA$",
		"panic: test timed out after 20s\nrunning tests:\n\tTestSlow (20s)\n\tTestOther (1s)\n": "^TestSlow$",
		"--- FAIL: TestA (0.00s)\npanic: boom [recovered, repanicked]\n":                        "^TestA$",
	} {
		if got := redTest(out); got != want {
			t.Errorf("%q: got %q, want %q", out, got, want)
		}
	}
}
