package faults

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// left reports whether a file belongs to a process rather than to the data: the next server creates it anew.
func left(name string) bool {
	return name == "addresses.json" || name == "settings.json" || name == "lock" || strings.HasSuffix(name, "-shm") || strings.HasSuffix(name, "-ballast")
}

// pack writes a data folder into an archive.
func pack(t *testing.T, dir, archive string) {
	t.Helper()
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if left(file.Name()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(&tar.Header{Name: file.Name(), Mode: 0o600, Size: int64(len(b))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
}

// unpack puts the files of an archive into a folder and returns their names.
func unpack(t *testing.T, archive, dir string) (names []string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(h.Name)), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

// age is how old a folder is when it is opened: older than the hour after which some notifications expire or are sent.
const age = 2 * time.Hour

// times are the columns with a time in milliseconds; zero and negative values mean none.
var times = map[string]map[string][]string{
	"mailbox.db": {
		"notification": {"created_at", "send_at", "expires_at", "delivered_at", "settled_at"},
		"recipient":    {"last_seen"},
		"device":       {"last_seen"},
	},
	"campaign.db": {
		"campaign": {"send_at", "created_at", "started_at", "finished_at"},
		"delivery": {"due", "first_at", "at"},
		"endpoint": {"created_at", "updated_at", "last_seen_at"},
	},
	"objects.db": {"object": {"updated_at"}, "progress": {"seen_at"}},
}

// addresses are the statements that change the addresses of hooks and endpoints: another program may use the old port now.
var addresses = map[string]string{
	"apps.db":     "UPDATE hook SET settings = replace(settings, ?1, ?2)",
	"campaign.db": "UPDATE endpoint SET address = replace(address, ?1, ?2), address_key = address_key(replace(address, ?1, ?2))",
}

// open unpacks a committed folder so that it seems to be two hours old, since notifications expire after 30 days at most, and the archive
// is older. Its webhooks are posted to receiver. The log of a killed server stays, for the new server to recover.
func open(t *testing.T, archive string, m *made, receiver string) (dir string, logs int) {
	t.Helper()
	from, dir := t.TempDir(), t.TempDir()
	names := unpack(t, archive, from)
	by := time.Since(m.At) - age
	for _, name := range names {
		if strings.HasSuffix(name, "-wal") {
			logs++
			continue
		}
		func() {
			c, err := sqlite.OpenConn(filepath.Join(from, name), sqlite.OpenReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			run := func(query string, args ...any) {
				t.Helper()
				if err := sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args}); err != nil {
					t.Fatalf("%s: %s: %v", name, query, err)
				}
			}
			run("PRAGMA wal_autocheckpoint=0")
			for table, columns := range times[name] {
				for _, column := range columns {
					run(fmt.Sprintf("UPDATE %s SET %s = %s + ? WHERE %s > 0", table, column, column, column), by.Milliseconds())
				}
			}
			if query := addresses[name]; query != "" {
				keyOfAddress(t, c)
				run(query, m.Receiver, receiver)
			}
			if name == "events.db" {
				run("UPDATE hook SET progress = json_remove(json_set(progress, '$.failing', ?), '$.next_at') WHERE progress ->> 'failing' IS NOT NULL",
					time.Now().Add(-age).UTC().Format(time.RFC3339))
			}
			if slices.Contains(names, name+"-wal") { // closing the database would remove the log
				moveFiles(t, from, dir, name, name+"-wal")
				return
			}
		}()
		if !slices.Contains(names, name+"-wal") {
			moveFiles(t, from, dir, name)
		}
	}
	return dir, logs
}

// keyOfAddress gives SQL the function that normalises a webhook's address.
func keyOfAddress(t *testing.T, c *sqlite.Conn) {
	t.Helper()
	err := c.CreateFunction("address_key", &sqlite.FunctionImpl{NArgs: 1, Deterministic: true, Scalar: func(_ sqlite.Context, args []sqlite.Value) (sqlite.Value, error) {
		key := audience.AddressKey(&audience.Endpoint{Channel: push.Webhook, Address: json.RawMessage(args[0].Text())})
		return sqlite.BlobValue(key[:]), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func moveFiles(t *testing.T, from, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
