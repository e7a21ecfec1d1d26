package api

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/test/blackbox"
)

// Marks of an erased recipient: its name, and what only it was sent.
const (
	erasedName = "eve-who-is-erased"
	erasedText = "for-eve-alone"
)

// told are tables that tell of the erasure itself.
var told = map[string]bool{"audit": true}

func TestErasedRecipientIsInNoTable(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]kept{"files": {dir: t.TempDir()}, "PostgreSQL": inPostgres(t)} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, server: blackbox.Start(t, k.serve()...)}
			w.api = w.server.API()
			w.fillForErasure()
			if found := k.search(t, erasedName, erasedText); len(found) < 4 {
				t.Errorf("before the erasure only %q have something", found)
			}
			w.call(http.MethodDelete, "/v1/recipients/"+erasedName, nil)
			blackbox.Eventually(t, "nothing is left", func() error {
				if found := k.search(t, erasedName, erasedText); len(found) > 0 {
					return fmt.Errorf("%q have something", found)
				}
				return nil
			})
			var p inboxPage
			if err := w.call(http.MethodGet, "/v1/inbox?to=bob", nil).JSON(&p); err != nil || p.Total != 60 {
				t.Errorf("the inbox of another has %+v, %v; want 60 items", p, err)
			}
		})
	}
}

// fillForErasure stores what a recipient may have: inboxes with old and new items, waiting and acknowledged notifications, and an open digest.
func (w *world) fillForErasure() {
	w.Helper()
	publish := func(id string, more map[string]any) {
		body := map[string]any{"to": []string{erasedName}, "id": id, "title": erasedText, "category": "own"}
		for name, v := range more {
			body[name] = v
		}
		w.call(http.MethodPost, "/v1/notifications", body)
	}
	w.call(http.MethodPut, "/v1/categories/digest", map[string]any{"digest": map[string]any{"window": "10m"}})
	for i := range 60 {
		publish(fmt.Sprint("own-", i), map[string]any{"inbox": true, "actions": []map[string]string{{"id": "see", "title": erasedText}}})
		publish(fmt.Sprint("shared-", i), map[string]any{"inbox": true, "title": "for all", "to": []string{erasedName, "bob"}})
		publish(fmt.Sprint("waits-", i), map[string]any{"category": "digest"})
	}
	publish("later", map[string]any{"send_at": time.Now().Add(24 * time.Hour), "inbox": true})
	publish("collapses", map[string]any{"collapse_key": "k"})
	w.call(http.MethodPut, "/v1/recipients/"+erasedName+"/preferences", map[string]any{"categories": map[string]any{"own": map[string]any{"channels": []string{}}}})
	w.call(http.MethodPost, "/v1/inbox/own-3?to="+erasedName, map[string]any{"read": true, "pinned": true})
	w.call(http.MethodPost, "/v1/inbox/own-4?to="+erasedName, map[string]any{"archived": true})
	l := w.server.Connect(w.T, "ws", blackbox.Hello{Recipient: erasedName, Device: "phone"})
	n, err := blackbox.NextNotification(w.Context(), l)
	if err == nil {
		err = l.Ack(w.Context(), n.ID)
	}
	if err != nil {
		w.Fatal(err)
	}
	l.Cut()
}

// search lists the tables in which one of these texts is.
func (k kept) search(t *testing.T, texts ...string) (tables []string) {
	t.Helper()
	if k.url != "" {
		return searchSchemas(t, k.url, texts)
	}
	err := filepath.WalkDir(k.dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".db") {
			tables = append(tables, searchFile(t, path, texts)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

func searchFile(t *testing.T, path string, texts []string) (tables []string) {
	t.Helper()
	c, err := sqlite.OpenConn("file:"+path+"?mode=ro", sqlite.OpenReadOnly, sqlite.OpenURI)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var names []string
	each := func(sql string, row func(*sqlite.Stmt)) {
		if err := sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error { row(s); return nil }}); err != nil {
			t.Fatalf("%s: %s: %v", path, sql, err)
		}
	}
	each("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", func(s *sqlite.Stmt) { names = append(names, s.ColumnText(0)) })
	for _, name := range names {
		found := false
		each(`SELECT * FROM "`+name+`"`, func(s *sqlite.Stmt) {
			for i := range s.ColumnCount() {
				b := make([]byte, s.ColumnLen(i))
				s.ColumnBytes(i, b)
				for _, text := range texts {
					found = found || bytes.Contains(b, []byte(text))
				}
			}
		})
		if found && !told[name] {
			tables = append(tables, filepath.Base(path)+" "+name)
		}
	}
	return tables
}

func searchSchemas(t *testing.T, url string, texts []string) (tables []string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	rows, err := c.Query(t.Context(), "SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE 'godwit%'")
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id pgx.Identifier, err error) {
		id = pgx.Identifier{"", ""}
		return id, row.Scan(&id[0], &id[1])
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range all {
		for _, text := range texts {
			n := 0
			err := c.QueryRow(t.Context(), "SELECT count(*) FROM "+table.Sanitize()+" AS t WHERE t::text LIKE $1 OR t::text LIKE $2", "%"+text+"%", "%"+hex.EncodeToString([]byte(text))+"%").Scan(&n)
			if err != nil {
				t.Fatalf("%s: %v", table, err)
			}
			if n > 0 && !told[table[1]] {
				tables = append(tables, table[0]+"."+table[1])
				break
			}
		}
	}
	return tables
}
