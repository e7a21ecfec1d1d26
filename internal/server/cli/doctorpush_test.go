package cli_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/cli/command"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
)

func TestDoctorNamesVAPIDSubjectsThatPushServicesRefuse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if code, _, errs := run(t, "app", "create", "shop", "--local", "--data", dir); code != command.ExitOK {
		t.Fatal(errs)
	}
	doctor := func() (int, string, string) {
		return run(t, "doctor", "--data", dir, "--http-addr", "127.0.0.1:0", "--grpc-addr", "off", "--min-free", "1MB")
	}
	if code, out, _ := doctor(); code != command.ExitOK {
		t.Errorf("an app without Web Push is a finding:\n%s", out)
	}
	set := func(subject string) {
		t.Helper()
		s, err := appdb.Open(t.Context(), filepath.Join(dir, store.AppsFile), slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		err = s.Channels.Update(t.Context(), "shop", string(push.WebPush), func(r *channel.Record, _ int) error {
			r.Values["subject"] = subject // as a former version stored it
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{"mailto:a@localhost", "https://10.0.0.1/", "https://push.lan/contact", "mailto:ops"} {
		set(subject)
		code, out, errs := doctor()
		if code != command.ExitFailed {
			t.Errorf("%s: exit code %d", subject, code)
		}
		says(t, out, "bad  VAPID        subject of app shop ", "hint: godwit channel set webpush --app shop --set subject=mailto:")
		says(t, errs, "1 of the checks found something")
	}
	set("mailto:ops@example.org")
	if code, out, _ := doctor(); code != command.ExitOK {
		t.Errorf("a good subject is a finding:\n%s", out)
	} else {
		says(t, out, "ok   VAPID        subject of app shop: mailto:ops@example.org")
	}
	set("")
	if code, out, _ := doctor(); code != command.ExitOK {
		t.Errorf("no subject is a finding:\n%s", out)
	} else {
		says(t, out, "app shop has no subject", "hint: Apple's push service")
	}
	if err := os.Chmod(filepath.Join(dir, store.AppsFile), 0o400); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, store.AppsFile))
	if err != nil {
		t.Fatal(err)
	}
	doctor()
	if after, err := os.ReadFile(filepath.Join(dir, store.AppsFile)); err != nil || string(after) != string(before) {
		t.Errorf("looking changed the file: %v", err)
	}
}
