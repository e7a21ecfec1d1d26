package mailboxdb_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/storetest"
	"godwit.dev/godwit/internal/testkit/thorough"
)

const killInboxEnv = "GODWIT_KILLED_INBOX"

// TestKilledInbox is the process that TestKilledInboxesAgreeWithTheirCounts kills.
func TestKilledInbox(t *testing.T) {
	path := os.Getenv(killInboxEnv)
	if path == "" {
		t.Skip("only as a process of its own")
	}
	s, err := mailboxdb.Open(context.Background(), path, config())
	if err != nil {
		t.Fatal(err)
	}
	storetest.UseInboxes(s)
}

func TestKilledInboxesAgreeWithTheirCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	process := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledInbox$")
		cmd.Env = append(os.Environ(), killInboxEnv+"="+path)
		return cmd
	}
	storetest.InboxKills(t, thorough.Rounds(3, 20), process, func() storetest.KilledStore { return openAt(t, path, config()) })
}
