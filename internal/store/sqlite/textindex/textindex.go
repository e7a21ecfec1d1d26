// Package textindex finds texts by their words, with SQLite's FTS5 in memory.
package textindex

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// maxWords bounds the words of one search; the rest are ignored.
const maxWords = 12

// Text is what the index finds. A match in Title counts most, one in Body least.
type Text struct{ Title, Heading, Body string }

// Match is a text that has all words of a search.
type Match struct {
	Text    int      // its position among the index's texts
	Excerpt []string // words around matches; each second string is a match
}

// Index is safe for concurrent use.
type Index struct {
	mu   sync.Mutex
	conn *sqlite.Conn
}

// New indexes texts. The index lives until it is closed.
func New(texts []Text) (*Index, error) {
	conn, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenMemory)
	if err != nil {
		return nil, fmt.Errorf("open an index of texts: %w", err)
	}
	x := &Index{conn: conn}
	if err := x.fill(texts); err != nil {
		return nil, errors.Join(fmt.Errorf("index texts: %w", err), conn.Close())
	}
	return x, nil
}

func (x *Index) fill(texts []Text) (err error) {
	if err := sqlitex.ExecuteTransient(x.conn, "CREATE VIRTUAL TABLE text USING fts5(title, heading, body, tokenize = 'porter unicode61')", nil); err != nil {
		return err
	}
	end, err := sqlitex.ImmediateTransaction(x.conn)
	if err != nil {
		return err
	}
	defer end(&err)
	for i := range texts {
		t := &texts[i]
		if err := sqlitex.Execute(x.conn, "INSERT INTO text (rowid, title, heading, body) VALUES (?, ?, ?, ?)", &sqlitex.ExecOptions{Args: []any{i, t.Title, t.Heading, t.Body}}); err != nil {
			return err
		}
	}
	return nil
}

// The marks around matches in an excerpt: control characters, which no text contains.
const (
	before = "\x01"
	after  = "\x02"
)

// Search returns at most limit texts that contain all words, the best first. The last word may be the beginning of one. Punctuation separates
// words.
func (x *Index) Search(ctx context.Context, words string, limit int) ([]Match, error) {
	query := match(words)
	if query == "" {
		return nil, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conn.SetInterrupt(ctx.Done())
	defer x.conn.SetInterrupt(nil)
	var found []Match
	err := sqlitex.Execute(x.conn, "SELECT rowid, snippet(text, 2, ?, ?, '…', 24) FROM text WHERE text MATCH ? ORDER BY bm25(text, 10, 6, 1), rowid LIMIT ?", &sqlitex.ExecOptions{
		Args: []any{before, after, query, limit},
		ResultFunc: func(row *sqlite.Stmt) error {
			found = append(found, Match{Text: row.ColumnInt(0), Excerpt: excerpt(row.ColumnText(1))})
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("search texts: %w", err)
	}
	return found, nil
}

// Close frees the index's memory.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.conn.Close()
}

// match returns FTS5's expression for texts that contain all words. Quotes keep its operators out.
func match(words string) string {
	list := strings.FieldsFunc(words, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
	list = list[:min(len(list), maxWords)]
	for i, w := range list {
		list[i] = `"` + w + `"`
	}
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, " ") + "*"
}

// excerpt separates matches from the words around them.
func excerpt(text string) []string {
	return strings.Split(strings.ReplaceAll(text, after, before), before)
}
