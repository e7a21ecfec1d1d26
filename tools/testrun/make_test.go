package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"
)

func TestACommandIsReportedAsAPackageWithWhatItPrinted(t *testing.T) {
	for script, want := range map[string]string{
		"echo one; echo two >&2":      "start output:one\n output:two\n pass",
		"echo one; printf two; false": "start output:one\n output:two fail",
	} {
		var printed bytes.Buffer
		err := report("clients", exec.CommandContext(t.Context(), "sh", "-c", script), &lines{to: &printed})
		got := ""
		for d := json.NewDecoder(&printed); d.More(); {
			var r result
			if err := d.Decode(&r); err != nil || r.Package != "clients" || r.Time.IsZero() {
				t.Fatalf("%+v: %v", r, err)
			}
			if got += r.Action; r.Output != "" {
				got += ":" + r.Output
			}
			got += " "
		}
		if got != want+" " || (err != nil) != (want[len(want)-4:] == "fail") {
			t.Errorf("%s is reported as %q, %v", script, got, err)
		}
	}
}

func TestTargetsBesideOneThatFailsAreMade(t *testing.T) {
	t.Chdir(t.TempDir()) // where there is no Makefile
	var printed bytes.Buffer
	if err := makeAll(t.Context(), []string{"a", "b"}, &lines{to: &printed}); err == nil {
		t.Error("nothing is said of targets that do not exist")
	}
	for _, target := range []string{"a", "b"} {
		if !bytes.Contains(printed.Bytes(), fmt.Appendf(nil, `"Action":"fail","Package":%q`, target)) {
			t.Errorf("%s is not reported: %s", target, &printed)
		}
	}
}
