package faults

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// rowsWith lists the tables of Godwit's schemas with rows that contain any of these texts.
func rowsWith(t *testing.T, c *pgx.Conn, texts ...string) (found []string) {
	t.Helper()
	rows, err := c.Query(t.Context(), "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE starts_with(schemaname, 'godwit')")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %q, %v", tables, err)
	}
	for _, table := range tables {
		for _, text := range texts {
			n := 0
			// Bytes converted to text are hexadecimal digits.
			err := c.QueryRow(t.Context(), "SELECT count(*) FROM "+table+" r WHERE strpos(r::text, $1) > 0 OR strpos(r::text, encode(convert_to($1, 'UTF8'), 'hex')) > 0", text).Scan(&n)
			if err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				found = append(found, fmt.Sprintf("%s has %s in %d rows", table, text, n))
			}
		}
	}
	return found
}

func TestNothingOfTheErasedIsLeftInAnyTable(t *testing.T) {
	for what, erase := range map[string]func(t *testing.T, s *blackbox.Server, url string){
		"a recipient": func(t *testing.T, s *blackbox.Server, _ string) {
			s.API().Call(t, http.MethodDelete, "/v1/recipients/"+erasedName, nil, nil)
			overwritten(t, s)
		},
		"an app": func(t *testing.T, s *blackbox.Server, url string) {
			api := s.API()
			api.Call(t, http.MethodPost, "/v1/endpoints", map[string]any{"channel": "webhook", "address": map[string]any{"url": "http://127.0.0.1:1/" + erasedName}, "tags": []string{erasedText}}, nil)
			api.Call(t, http.MethodPut, "/v1/objects/g/"+erasedName, map[string]any{"payload": map[string]any{"name": erasedText}}, nil)
			api.Call(t, http.MethodPut, "/v1/recipients/"+erasedName+".too/preferences", map[string]any{"timezone": "Europe/Oslo"}, nil)
			if out, err := s.Manage("app", "delete", "demo", "--yes", "--data", s.Dir); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			blackbox.Eventually(t, "the app is erased", func() error {
				if !strings.Contains(s.Log(), "app erased") {
					return errors.New("it is not yet")
				}
				return nil
			})
			overwritten(t, s)
		},
	} {
		t.Run(what, func(t *testing.T) {
			server := pgtest.Start(t, pgtest.Options{})
			url := server.URL()
			s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--allow-private-urls", "--erase-within", "1s", "--postgres", url))
			leaveTraces(t, s)
			c, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close(t.Context()) }()
			if found := rowsWith(t, c, erasedName, erasedText); len(found) < 5 {
				t.Fatalf("before: %q", found)
			}
			flush := func() { // samples of the tables too
				for _, sql := range []string{"ANALYZE", "CHECKPOINT"} {
					if _, err := c.Exec(t.Context(), sql); err != nil {
						t.Fatal(err)
					}
				}
			}
			flush()
			if found := holds(t, server.Tables(), erasedName, erasedText); len(found) < 5 {
				t.Fatalf("in the database's files before: %q", found)
			}
			erase(t, s, url)
			if found := rowsWith(t, c, erasedName, erasedText); len(found) > 0 {
				t.Errorf("left: %q", found)
			}
			if _, err := c.Exec(t.Context(), "CHECKPOINT"); err != nil {
				t.Fatal(err)
			}
			if found := holds(t, server.Tables(), erasedName, erasedText); len(found) > 0 {
				t.Errorf("left in the database's files: %q", found)
			}
			var counted, there int64
			if err := c.QueryRow(t.Context(), "SELECT bytes, (SELECT coalesce(sum(octet_length(data)), 0) FROM godwit_event.chunk) FROM godwit_event.head").Scan(&counted, &there); err != nil || counted != there {
				t.Errorf("the log counts %d bytes of events, there are %d: %v", counted, there, err)
			}
		})
	}
}
