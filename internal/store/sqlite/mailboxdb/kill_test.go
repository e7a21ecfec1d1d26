package mailboxdb_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

const killEnv = "GODWIT_KILLED_STORE"

// TestKilledPublisher is the process that TestKillLosesNothingAcknowledged kills: it publishes endlessly, and prints every id once it is
// stored and again once its ack is stored.
func TestKilledPublisher(t *testing.T) {
	path := os.Getenv(killEnv)
	if path == "" {
		t.Skip("only as a process of its own")
	}
	s, err := mailboxdb.Open(context.Background(), path, config())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	say := func(what, id string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(what, id)
	}
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				a := publishOf(fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i), 500, fmt.Sprintf("r%d-%d-%d", os.Getpid(), g, i/500))
				if err := s.Append(context.Background(), []*mailbox.Append{a}); err != nil || a.Results[0].Err != nil {
					say("failed", fmt.Sprint(err, a.Results[0].Err))
					return
				}
				say("stored", a.N.ID)
				if i%2 == 0 {
					if err := s.Settle(context.Background(), []*mailbox.Settle{ackOf(a)}); err != nil {
						say("failed", err.Error())
						return
					}
					say("acked", a.N.ID)
				}
			}
		})
	}
	wg.Wait()
}

func TestKillLosesNothingAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	said := make(map[string]string)
	for round := range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledPublisher$")
		cmd.Env = append(os.Environ(), killEnv+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			what, id, ok := strings.Cut(lines.Text(), " ")
			if !ok || what == "failed" {
				t.Errorf("the publisher said %q", lines.Text())
			}
			said[id] = what
			if n == 1500+700*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
	}
	s := openAt(t, path, config())
	if len(said) < 1000 {
		t.Fatalf("only %d publishes were answered", len(said))
	}
	for id, what := range said {
		recs, err := s.Lookup(t.Context(), "app", id, "")
		if err != nil || len(recs) != 1 {
			t.Fatalf("%s was %s and is lost: %v", id, what, err)
		}
		if what == "acked" && recs[0].Status != notification.Acked {
			t.Errorf("%s was acked and is %s", id, recs[0].Status)
		}
	}
}
