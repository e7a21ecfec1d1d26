package mailboxdb_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
	"godwit.dev/godwit/internal/testkit/thorough"
)

const (
	killInboxURL    = "GODWIT_KILLED_INBOX_URL"
	killInboxSchema = "GODWIT_KILLED_INBOX_SCHEMA"
)

// TestKilledInbox is the process that TestKilledInboxesAgreeWithTheirCounts kills.
func TestKilledInbox(t *testing.T) {
	url := os.Getenv(killInboxURL)
	if url == "" {
		t.Skip("only as a process of its own")
	}
	s, err := mailboxdb.Open(context.Background(), mailboxdb.Config{URL: url, Schema: os.Getenv(killInboxSchema)})
	if err != nil {
		t.Fatal(err)
	}
	storetest.UseInboxes(s)
}

func TestKilledInboxesAgreeWithTheirCounts(t *testing.T) {
	cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	process := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledInbox$")
		cmd.Env = append(os.Environ(), killInboxURL+"="+cfg.URL, killInboxSchema+"="+cfg.Schema)
		return cmd
	}
	storetest.InboxKills(t, thorough.Rounds(3, 20), process, func() storetest.KilledStore { return open(t, cfg) })
}
