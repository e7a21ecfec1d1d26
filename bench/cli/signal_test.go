package cli_test

import (
	"bufio"
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"godwit.dev/godwit/bench/scenario"
	"godwit.dev/godwit/internal/server/cli/command"
)

func TestSignalToGodwitEndsTheMeasurement(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // limits the test if the signal has no effect
	defer cancel()
	cmd := exec.CommandContext(ctx, command.ServerProgram, "bench", "gateway-part", scenario.PartHandler)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it serves
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v, not by itself", err)
	}
}
