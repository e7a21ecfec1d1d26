package foreign

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"godwit.dev/godwit/bench/redispub"
	"godwit.dev/godwit/test/blackbox"
)

// pythonClient runs a client with grpcio: half of the entries are published before it connects, the others while it is connected.
func pythonClient(w *world) {
	blackbox.Long(w)
	python := filepath.Join(blackbox.Root(), ".bin", "venv", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		blackbox.Skip(w, "the Python packages are not installed: run make test-tools")
	}
	const half = 5
	client := uuid()
	var entries []*redispub.Entry
	for i := range 2 * half {
		entries = append(entries, entry(fmt.Sprint("ride-", i)))
	}
	w.publish(client, entries[:half]...)
	ctx, cancel := context.WithTimeout(w.Context(), blackbox.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "clients/app.py", w.addr, tokenOf(client), fmt.Sprint(2*half))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	n := 0
	for n < 2*half && lines.Scan() {
		var f []string
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil || len(f) != 8 {
			w.Fatalf("it printed %s", lines.Bytes())
		}
		if got, want := (payload{f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]}), wantPayload(entries[n]); got != want {
			w.Errorf("%d: got %+v, want %+v", n, got, want)
		}
		if n++; n == 1 {
			w.publish(client, entries[half:]...)
		}
	}
	if n != 2*half {
		w.Errorf("%d came, want %d: %s", n, 2*half, stderr.Bytes())
	}
	w.left(client, 0) // while the stream, half closed by the client, is still open
	cancel()
	_ = cmd.Wait() // it was ended
}
