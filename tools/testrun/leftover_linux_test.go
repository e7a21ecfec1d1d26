package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

func TestProcessThatATestLeavesRunningIsEndedAndFails(t *testing.T) {
	if err := adopt(); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	out := &lines{to: &printed}
	if err := reportLeftover(out, 0); err != nil {
		t.Fatalf("nothing is left, but %v", err)
	}
	// The shell ends at once, and leaves what it has started.
	if err := exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 >/dev/null 2>&1 &").Run(); err != nil {
		t.Fatal(err)
	}
	if err := reportLeftover(out, 0); err == nil || !strings.Contains(printed.String(), "left running: sleep 1000") || !strings.Contains(printed.String(), `"Action":"fail"`) {
		t.Errorf("error %v, printed %s", err, &printed)
	}
	printed.Reset()
	if err := reportLeftover(out, patience); err != nil || printed.Len() > 0 {
		t.Errorf("it still runs: %v %s", err, &printed)
	}
}
