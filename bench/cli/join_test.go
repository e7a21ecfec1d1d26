package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/worker"
	"godwit.dev/godwit/internal/server/cli/command"
)

// TestClientsRunOnMachinesThatJoin measures with two workers that join over loopback, as they would from other machines.
func TestClientsRunOnMachinesThatJoin(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // limits the test if a worker never leaves
	defer cancel()
	run := exec.CommandContext(ctx, command.ServerProgram, "bench", "objects", "latency", "--runs", "1", "--clients", "20", "--publishers", "1",
		"--rates", "20,40", "--warmup", "0s", "--for", "200ms", "--join-addr", "127.0.0.1:0", "--machines", "2", "--json")
	var out bytes.Buffer
	run.Stdout = &out
	errs, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(errs).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	say := regexp.MustCompile(`^waiting for 2 to join; on each machine: GODWIT_BENCH_TOKEN=(\S+) godwit-bench worker --join (\S+)\n$`).FindStringSubmatch(line)
	if say == nil {
		t.Fatalf("the run said %q", line)
	}
	if b, err := joining(ctx, worker.NewToken(), say[2], "stranger").CombinedOutput(); err == nil || !strings.Contains(string(b), "another token") {
		t.Errorf("a stranger: %s, %v", b, err)
	}
	north, south := joining(ctx, say[1], say[2], "north"), joining(ctx, say[1], say[2], "south")
	for _, w := range []*exec.Cmd{north, south} {
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range []*exec.Cmd{run, north, south} {
		if err := w.Wait(); err != nil {
			t.Errorf("%v ended with %v", w.Args, err)
		}
	}
	var r report.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	checkShares(t, &r)
}

func joining(ctx context.Context, token, addr, name string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, command.BenchProgram, "worker", "--join", addr, "--name", name)
	cmd.Env = append(os.Environ(), "GODWIT_BENCH_TOKEN="+token)
	return cmd
}

// checkShares checks that both machines held half of the clients, at both rates, and got all that these were sent.
func checkShares(t *testing.T, r *report.Result) {
	t.Helper()
	if len(r.Machines) != 2 || len(r.Shares) != 4 {
		t.Fatalf("%d machines, %d shares", len(r.Machines), len(r.Shares))
	}
	received := map[string]int64{}
	for _, s := range r.Shares {
		received[s.Group] += s.Received
		if s.Clients != 10 || s.Received == 0 || s.Mean <= 0 || s.Clock <= 0 {
			t.Errorf("share %+v", s)
		}
	}
	for group, want := range map[string]int64{"20 puts/s": 80, "40 puts/s": 160} {
		if overtaken := r.Figure(group, "versions that a later one overtook"); overtaken == nil || received[group]+int64(overtaken.Median) < want {
			t.Errorf("%s: %d arrived on both machines, %+v", group, received[group], overtaken)
		}
	}
	var page strings.Builder
	if err := report.WriteTable(&page, r); err != nil || !regexp.MustCompile(`(?m)^by machine$`).MatchString(page.String()) {
		t.Errorf("%v: no table by machine in\n%s", err, &page)
	}
	page.Reset()
	if err := report.WriteHTML(&page, r); err != nil || !strings.Contains(page.String(), "<td>south</td><td>40 puts/s</td>") {
		t.Errorf("%v: no table by machine on the page", err)
	}
}
