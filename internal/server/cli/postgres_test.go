package cli_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/server/cli"
	"godwit.dev/godwit/internal/server/cli/command"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// run runs a command in this process.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = cli.Run(t.Context(), args, strings.NewReader(""), &out, &errs, nil)
	return code, out.String(), errs.String()
}

func says(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
}

func TestDoctorNamesWhoHoldsTheHorizon(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a PostgreSQL of its own")
	}
	s := pgtest.Start(t, pgtest.Options{Fsync: true, Settings: map[string]string{"wal_level": "logical"}})
	doctor := []string{"doctor", "--data", t.TempDir(), "--http-addr", "127.0.0.1:0", "--grpc-addr", "off", "--min-free", "1MB", "--postgres", s.URL()}
	code, out, _ := run(t, doctor...)
	if code != command.ExitOK {
		t.Errorf("a database that is well is refused:\n%s", out)
	}
	says(t, out, "ok   PostgreSQL   version ", "ok   horizon ", "ok   vacuum ", "ok   commits ", "ok   steps ")

	c, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "SELECT pg_create_logical_replication_slot('forgotten', 'pgoutput')"); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, doctor...)
	if code != command.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	says(t, out, "bad  horizon      replication slot forgotten", "hint: ")
	says(t, errs, "1 of the checks found something")
}

func TestBackupOfPostgreSQLNamesWhatDoesIt(t *testing.T) {
	code, _, errs := run(t, "backup", "copy.tar.gz", "--data", t.TempDir(), "--postgres", "postgres://db.example.org/godwit")
	if code != command.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	says(t, errs, "PostgreSQL's own programs", "hint: pg_dump -Fc", "holds a snapshot")
}

func TestDoctorVerifiesNoFilesBesideADatabase(t *testing.T) {
	for flag, want := range map[string]string{"--verify": "hint: godwit doctor without --verify", "--repair": "hint: restore a backup"} {
		code, _, errs := run(t, "doctor", flag, "--data", t.TempDir(), "--postgres", "postgres://db.invalid/godwit")
		if code != command.ExitFailed {
			t.Errorf("%s: exit code %d", flag, code)
		}
		says(t, errs, "in PostgreSQL", want)
	}
}
