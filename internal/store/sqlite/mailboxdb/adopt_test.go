package mailboxdb_test

import (
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// TestRowsFarApartAreAdopted fills a file with rows of positions that a database of several nodes may have given out: few, and far apart. The
// store finds them and keeps the index of the newest slice alone in memory.
func TestRowsFarApartAreAdopted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mailbox.db")
	db, err := mailboxdb.OpenFile(t.Context(), path, sqlitedb.Guard{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	created := time.Now().UnixMilli()
	body, _ := content.Encode(&notification.Content{Title: "T"})
	positions := []int64{5, 70_000, 50_000_000, 50_000_001}
	err = db.Do(t.Context(), func(c *sqlite.Conn) error {
		for _, sql := range []string{"INSERT INTO app(key, name) VALUES (1, 'shop')", "INSERT INTO recipient(key, app, name, last_seq, last_seen) VALUES (7, 1, 'ann', 4, 0)"} {
			if err := sqlitedb.Each(c, sql, nil, nil); err != nil {
				return err
			}
		}
		for i, pos := range positions {
			if err := sqlitedb.Each(c, `INSERT INTO notification VALUES (?1, 7, 1, 2, 0, 0, 0, -1, ?2, ?3, 0, ?4, -?3, -?3, 0, ?5, NULL)`,
				[]any{pos, i + 1, created, created + 3_600_000, "n" + string(rune('0'+i))}, nil); err != nil {
				return err
			}
			if err := sqlitedb.Each(c, "INSERT INTO content(pos, body) VALUES (?, ?)", []any{pos, body}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = mailboxdb.Adopted(t.Context(), db, 50_000_500)
	}
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := mailboxdb.Open(t.Context(), path, config())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := mailboxdb.Tails(s); n != 1 {
		t.Errorf("%d slices are in memory", n)
	}
	for i := range positions {
		records, err := s.Lookup(t.Context(), "shop", "n"+string(rune('0'+i)), "ann")
		if err != nil || len(records) != 1 || records[0].Pos != positions[i] {
			t.Errorf("n%d: %+v, %v", i, records, err)
		}
	}
	a := &mailbox.Append{To: []string{"ann"}, N: &notification.Notification{App: "shop", ID: "next", CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}}
	if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil || a.Results[0].Err != nil {
		t.Errorf("the next: %+v, %v", a.Results, err)
	}
	records, err := s.Lookup(t.Context(), "shop", "next", "ann")
	if err != nil || records[0].Pos != 50_000_501 || records[0].Seq != 5 {
		t.Errorf("the next is at %+v, %v", records, err)
	}
}
