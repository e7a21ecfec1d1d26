package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/testkit/freeport"
	"godwit.dev/godwit/test/blackbox"
)

// ports returns the first of consecutive ports; the example listens only on these.
func ports(t *testing.T) (first int) {
	t.Helper()
	first, release, err := freeport.Row(t.Context(), 24)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return first
}

func at(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// script runs one of the example's scripts, in a folder of the test's.
type script func(name string) (string, error)

func scripts(t *testing.T, run string, port int) script {
	t.Helper()
	env := append(os.Environ(), "GODWIT="+blackbox.Binary(t, false), "RUN="+run, "PORT="+strconv.Itoa(port))
	return func(name string) (string, error) {
		cmd := exec.Command("./" + name) // without the test's context: both scripts end by themselves, and down must run even when the test's time is over
		cmd.Env = env
		// Nodes print to files: a process that outlives the test would keep a pipe open.
		out, err := os.CreateTemp(t.TempDir(), name)
		if err != nil {
			return "", err
		}
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, out
		err = cmd.Run()
		said, readErr := os.ReadFile(out.Name())
		return string(said), errors.Join(err, readErr)
	}
}

func TestPublishReachesListenerOnOtherNode(t *testing.T) {
	blackbox.Long(t)
	run, port := filepath.Join(t.TempDir(), "run"), ports(t)
	do := scripts(t, run, port)
	t.Cleanup(func() {
		if said, err := do("down"); err != nil {
			t.Errorf("down: %v\n%s", err, said)
		}
	})
	said, err := do("up")
	if strings.Contains(said, "PostgreSQL is not installed") {
		blackbox.Skip(t, "PostgreSQL is not installed")
	}
	if err != nil {
		t.Fatalf("up: %v\n%s", err, said)
	}

	blackbox.Tool(t, "haproxy")
	publisher, listener := at(port), at(port+1)
	link, err := blackbox.At(t, listener, "").Dial(t.Context(), "ws", blackbox.Hello{Recipient: "driver-42"})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Cut()
	if f, err := link.Next(t.Context()); err != nil || f.Welcome == nil {
		t.Fatalf("the first frame is %+v: %v", f, err)
	}
	api := blackbox.At(t, publisher, "").API()
	const rides = 6 // more than there are nodes, because HAProxy uses the nodes in turn
	for i := range rides {
		if err := api.Publish(t.Context(), map[string]any{"to": "driver-42", "id": fmt.Sprint("ride-", i), "title": "New ride"}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
	defer cancel()
	for i := range rides {
		f, err := link.Next(ctx)
		if err != nil || f.Notification == nil || f.Notification.ID != fmt.Sprint("ride-", i) {
			t.Fatalf("frame %d is %+v: %v", i, f, err)
		}
		if err := link.Ack(ctx, f.Notification.ID); err != nil {
			t.Fatal(err)
		}
	}
	last := fmt.Sprint("ride-", rides-1)
	blackbox.Eventually(t, last+" is acknowledged", func() error { return api.WantState(ctx, last, "driver-42", "acked") })

	if said, err := do("up"); err == nil {
		t.Errorf("a second up beside the first: %s", said)
	}
	if said, err := do("down"); err != nil {
		t.Fatalf("down: %v\n%s", err, said)
	}
	for i := range 4 {
		if c, err := net.Dial("tcp", at(port+i)); err == nil {
			c.Close()
			t.Errorf("somebody listens at %s after down", at(port+i))
		}
	}
	if _, err := os.Lstat(filepath.Join(run, "postgres")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("PostgreSQL's folder is left: %v", err)
	}
	logs, _ := filepath.Glob(filepath.Join(run, "n*.log"))
	for _, log := range logs {
		if b, err := os.ReadFile(log); err != nil || bytes.Contains(b, []byte("ERROR")) {
			t.Errorf("%s: %v\n%s", log, err, b)
		}
	}
	if len(logs) != 3 {
		t.Errorf("%d nodes left a log", len(logs))
	}
}
