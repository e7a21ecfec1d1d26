package stubs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/oklog/ulid/v2"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/inboxrow"
	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
)

// Inboxes are recipients with kept notifications, which were published in rounds: one for each recipient, then the next one. All deliveries are so
// long ago that no records of them are left.
type Inboxes struct {
	App        string
	Recipients int
	Kept       int // in each inbox
	Size       int // bytes of each content, as it is stored
}

// InboxOwner returns the name of a recipient.
func InboxOwner(n int) string { return fmt.Sprintf("kept-%07d", n) }

const (
	inboxCategory = "post"
	// wave is how many items an inbox gets before its rows are written: between two waves, the rows of all others are.
	wave = 16
	// inboxesAtOnce and contentsAtOnce bound a transaction.
	inboxesAtOnce  = 20_000
	contentsAtOnce = 200_000
	keptFor        = 365 * 24 * time.Hour
	betweenRounds  = 6 * time.Hour
)

// Fill creates a mailbox file at path. say is called with what it does.
func (in *Inboxes) Fill(ctx context.Context, path string, say func(format string, args ...any)) error {
	if err := reopen(ctx, path, func() error { return nil }); err != nil { // makes the tables
		return err
	}
	if err := in.insert(ctx, path, say); err != nil {
		return fmt.Errorf("fill %s: %w", path, err)
	}
	if err := os.Remove(path + checkvfs.Suffix); err != nil { // the rows were written without checksums; the store computes them again
		return fmt.Errorf("fill %s: %w", path, err)
	}
	say("computing checksums")
	return reopen(ctx, path, func() error { return nil })
}

func (in *Inboxes) insert(ctx context.Context, path string, say func(format string, args ...any)) (err error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	c.SetInterrupt(ctx.Done())
	for _, pragma := range []string{"PRAGMA synchronous = OFF", "PRAGMA cache_size = -262144"} { // without syncs, because after a crash Fill just starts again
		if err := sqlitex.ExecuteTransient(c, pragma, nil); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{"INSERT INTO app(key, name) VALUES (1, ?1)", []any{in.App}},
		{`WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < ?1 - 1)
			INSERT INTO recipient(key, app, name, last_seq, last_seen) SELECT n + 1, 1, printf('kept-%07d', n), ?2, 0 FROM i`, []any{in.Recipients, in.Kept}},
		{"UPDATE meta SET value = ?1", []any{in.Recipients * in.Kept}},
	} {
		if err := sqlitex.Execute(c, step.sql, &sqlitex.ExecOptions{Args: step.args}); err != nil {
			return err
		}
	}
	if err := in.contents(c, say); err != nil {
		return err
	}
	for from := 0; from < in.Kept; from += wave {
		say("filling inboxes: items %d to %d of %d", from+1, min(from+wave, in.Kept), in.Kept)
		if err := in.wave(c, from, min(from+wave, in.Kept)); err != nil {
			return err
		}
	}
	return nil
}

// inParts runs do for parts of n, each in a transaction.
func inParts(c *sqlite.Conn, n, size int, do func(from, to int) error) error {
	for from := 0; from < n; from += size {
		end, err := sqlitex.ImmediateTransaction(c)
		if err != nil {
			return err
		}
		err = do(from, min(from+size, n))
		end(&err)
		if err != nil {
			return err
		}
	}
	return nil
}

// contents stores a content for each item; the item of a round and recipient has the content at round × recipients + recipient.
func (in *Inboxes) contents(c *sqlite.Conn, say func(format string, args ...any)) error {
	put, err := c.Prepare("INSERT INTO inbox_content(pos, refs, body) VALUES (?1, 1, ?2)")
	if err != nil {
		return err
	}
	text := make([]byte, max(0, in.Size-len(in.content(0, ""))))
	for i := range text {
		text[i] = 'a' + byte(i%26)
	}
	n := in.Recipients * in.Kept
	said := time.Now()
	return inParts(c, n, contentsAtOnce, func(from, to int) error {
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			say("storing contents: %d of %d", from, n)
		}
		for i := from; i < to; i++ {
			put.BindInt64(1, int64(i+1))
			put.BindBytes(2, in.content(i, string(text)))
			if _, err := put.Step(); err != nil {
				return err
			}
			if err := put.Reset(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (in *Inboxes) content(n int, text string) []byte {
	k := notification.Content{Title: fmt.Sprintf("Post %09d", n), Body: text, Category: inboxCategory, Inbox: &notification.Inbox{Keep: keptFor}}
	body, _ := content.Encode(&k)
	return content.Kept(&k, body)
}

// wave adds the items of some rounds to all inboxes.
func (in *Inboxes) wave(c *sqlite.Conn, from, to int) error {
	rows := inboxFile{c}
	now := time.Now()
	return inParts(c, in.Recipients, inboxesAtOnce, func(first, last int) error {
		for r := first; r < last; r++ {
			key := int64(r + 1)
			head, err := rows.Read(inboxrow.Key(key))
			if err != nil {
				return err
			}
			box, err := inboxrow.Open(key, head)
			if err != nil {
				return err
			}
			for round := from; round < to; round++ {
				n := round*in.Recipients + r
				at := now.Add(-betweenRounds * time.Duration(in.Kept-round))
				id := ulid.ULID{}
				_ = id.SetTime(ulid.Timestamp(at)) // before the year 10889
				for i := range 8 {
					id[15-i] = byte(n * 0x9e3779b1 >> (8 * i))
				}
				if err := box.Add(rows, inboxrow.New{ID: id.String(), Category: inboxCategory, Content: int64(n + 1), CreatedAt: at.UnixMilli(), Keep: keptFor}); err != nil {
					return err
				}
			}
			if _, err := box.Flush(rows, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// inboxFile are the rows of inboxes in a file.
type inboxFile struct{ c *sqlite.Conn }

func (t inboxFile) Read(key int64) (data []byte, err error) {
	err = sqlitex.Execute(t.c, "SELECT data FROM inbox WHERE key = ?1", &sqlitex.ExecOptions{Args: []any{key}, ResultFunc: func(s *sqlite.Stmt) error {
		data = make([]byte, s.ColumnLen(0))
		s.ColumnBytes(0, data)
		return nil
	}})
	return data, err
}

func (t inboxFile) Write(row inboxrow.Row) error {
	st := t.c.Prep("INSERT INTO inbox(key, data, due) VALUES (?1, ?2, nullif(?3, 0)) ON CONFLICT (key) DO UPDATE SET data = excluded.data, due = excluded.due")
	st.BindInt64(1, row.Key)
	st.BindBytes(2, row.Data)
	st.BindInt64(3, row.Due)
	_, err := st.Step()
	return errors.Join(err, st.Reset())
}

func (t inboxFile) Delete(key int64) error {
	return sqlitex.Execute(t.c, "DELETE FROM inbox WHERE key = ?1", &sqlitex.ExecOptions{Args: []any{key}})
}

// Release is never called: nothing leaves these inboxes.
func (inboxFile) Release(int64) error { return nil }

// InboxBytes returns how many bytes of pages the tables of inboxes have, and those of them that are contents.
func InboxBytes(ctx context.Context, path string) (pages, contents int64, err error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	c.SetInterrupt(ctx.Done())
	if pages, err = sqlitex.ResultInt64(c.Prep("SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE aggregate = true AND name IN ('inbox', 'inbox_due', 'inbox_content')")); err != nil {
		return 0, 0, err
	}
	contents, err = sqlitex.ResultInt64(c.Prep("SELECT coalesce(sum(length(body)), 0) FROM inbox_content"))
	return pages, contents, err
}
