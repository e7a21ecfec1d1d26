package repair

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
)

// connect opens a database; if checked, it checks pages by their checksums.
func connect(path string, checked bool) (conn *sqlite.Conn, closing func() error, err error) {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path}
	var file *checkvfs.File
	if checked {
		vfs, err := checkvfs.On("")
		if err != nil {
			return nil, nil, err
		}
		if file, err = checkvfs.Open(path, checkvfs.Options{Expected: true}); err != nil {
			return nil, nil, err
		}
		u.RawQuery = url.Values{"vfs": {vfs}}.Encode()
	}
	conn, err = sqlite.OpenConn(u.String(), sqlite.OpenReadWrite, sqlite.OpenURI)
	if err != nil {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		return nil, nil, err
	}
	return conn, func() error {
		err := conn.Close()
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		return err
	}, nil
}

// intact reports whether a database passes SQLite's integrity check.
func (j *Job) intact(_ context.Context, path string) bool {
	conn, closing, err := connect(path, true)
	if err != nil {
		return false
	}
	defer func() { _ = closing() }()
	good, seen := true, false
	err = query(conn, "PRAGMA integrity_check(1)", func(s *sqlite.Stmt) { good, seen = s.ColumnText(0) == "ok", true })
	return err == nil && good && seen
}

func query(conn *sqlite.Conn, sql string, row func(*sqlite.Stmt), args ...any) error {
	return sqlitex.ExecuteTransient(conn, sql, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
		if row != nil {
			row(s)
		}
		return nil
	}})
}

// stretch is a range of rowids whose rows could not be read, from first to last, both included.
type stretch struct{ first, last int64 }

// rebuild fills an empty database with the readable rows.
func (j *Job) rebuild(ctx context.Context, r *Report, image, before, out string) error {
	b, err := os.ReadFile(j.Blank)
	if err != nil {
		return err
	}
	if err := writeSynced(out, b); err != nil {
		return err
	}
	to, closeTo, err := connect(out, false)
	if err != nil {
		return err
	}
	from, closeFrom, err := connect(image, true)
	if err != nil {
		r.Lost = append(r.Lost, Loss{What: "everything: it cannot be read as a database"})
		return closeTo()
	}
	c := &copier{from: from, to: to, r: r, quiet: j.Quiet, counted: []string{j.Table, j.Packs}, lost: make(Lost), or: "REPLACE"}
	err = c.all(ctx, before)
	if err == nil {
		err = j.ready(to, r, c.lost)
	}
	if err == nil {
		err = j.apply(to, r)
	}
	return errors.Join(err, closeFrom(), closeTo())
}

// ready calls the kind's Ready, which writes the state that other tables hold for rows into these rows.
func (j *Job) ready(conn *sqlite.Conn, r *Report, lost Lost) error {
	if j.Ready == nil {
		return nil
	}
	done, err := j.Ready(conn, lost)
	if err != nil {
		return fmt.Errorf("make ready: %w", err)
	}
	r.Lost = append(r.Lost, done.Losses...)
	r.Repaired = append(r.Repaired, done.Repaired...)
	r.restored += done.Unsure
	return nil
}

// tidy calls ready for a database without damaged pages, and apply if commits are lost.
func (j *Job) tidy(r *Report, path string) error {
	if j.Ready == nil && j.Differs == nil && r.Commits == 0 {
		return nil
	}
	conn, closing, err := connect(path, false)
	if err != nil {
		return err
	}
	err = j.ready(conn, r, nil)
	if how := j.differs(conn); err == nil && (r.Commits > 0 || how != "") {
		if err = j.apply(conn, r); how != "" {
			r.Repaired = append(r.Repaired, how+": put right")
		}
	}
	return errors.Join(err, closing())
}

// differs returns Kind.Differs; a database that cannot be read does not differ.
func (j *Job) differs(conn *sqlite.Conn) string {
	if j.Differs == nil {
		return ""
	}
	how, err := j.Differs(conn)
	if err != nil {
		return ""
	}
	return how
}

// apply removes rows that have become meaningless by the losses.
func (j *Job) apply(conn *sqlite.Conn, r *Report) error {
	for _, rule := range j.Rules {
		if rule.Find != "" {
			err := query(conn, rule.Find, func(s *sqlite.Stmt) {
				r.Lost = append(r.Lost, Loss{What: s.ColumnText(0), Key: s.ColumnText(1), To: s.ColumnText(2), Rows: s.ColumnInt64(3)})
			})
			if err != nil {
				return fmt.Errorf("look for %s: %w", rule.Find, err)
			}
		}
		if rule.Remove != "" {
			if err := sqlitex.ExecuteScript(conn, rule.Remove, nil); err != nil {
				return fmt.Errorf("tidy up: %w", err)
			}
		}
	}
	return nil
}

type copier struct {
	from, to *sqlite.Conn
	r        *Report
	quiet    map[string]bool
	lost     Lost
	counted  []string           // tables whose row numbers are in the tally
	took     func(*sqlite.Stmt) // called for each row that is inserted
	or       string             // how to insert existing rows: REPLACE rows of the empty database, IGNORE for saved ones
}

// table is a table that both databases have.
type table struct {
	name    string
	columns []string // columns that both databases have
	key     []string // of columns: its primary key
	rowid   bool
}

func (t *table) list() string { return `"` + strings.Join(t.columns, `","`) + `"` }

func (c *copier) all(ctx context.Context, before string) (err error) {
	tables, err := tablesOf(c.to)
	if err != nil {
		return err
	}
	if err := query(c.to, "PRAGMA synchronous=off", nil); err != nil {
		return err
	}
	for _, t := range tables {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !c.known(&t) {
			continue
		}
		lost, err := c.copy(&t)
		if err != nil {
			return fmt.Errorf("save the rows of %s: %w", t.name, err)
		}
		if len(lost) > 0 {
			c.lost[t.name] = nil
		}
		if len(lost) > 0 && before != "" {
			if err := c.fill(&t, before, lost); err != nil {
				return fmt.Errorf("save the rows of %s: %w", t.name, err)
			}
		}
		if len(lost) > 0 {
			c.name(&t, lost)
		}
	}
	return nil
}

func tablesOf(conn *sqlite.Conn) (tables []table, err error) {
	err = query(conn, "SELECT name, wr FROM pragma_table_list WHERE schema='main' AND type='table' AND name NOT IN ('sqlite_schema','sqlite_stat1')", func(s *sqlite.Stmt) {
		tables = append(tables, table{name: s.ColumnText(0), rowid: !s.ColumnBool(1)})
	})
	return tables, err
}

// known finds the columns that the table has in both databases. It returns false if the damaged one does not have the table or cannot be
// read.
func (c *copier) known(t *table) bool {
	have := map[string]bool{}
	err := query(c.from, "SELECT name FROM pragma_table_info(?1)", func(s *sqlite.Stmt) { have[s.ColumnText(0)] = true }, t.name)
	if err != nil {
		c.r.Lost = append(c.r.Lost, Loss{What: "all of table " + t.name})
		c.lost[t.name] = nil
		return false
	}
	if t.rowid && t.name != "sqlite_sequence" {
		t.columns = append(t.columns, "rowid")
	}
	err = query(c.to, "SELECT name, pk FROM pragma_table_info(?1)", func(s *sqlite.Stmt) {
		if have[s.ColumnText(0)] {
			t.columns = append(t.columns, s.ColumnText(0))
		}
		if s.ColumnBool(1) {
			t.key = append(t.key, s.ColumnText(0))
		}
	}, t.name)
	return err == nil && len(have) > 0
}

// copy copies the readable rows and returns where others were lost.
func (c *copier) copy(t *table) ([]stretch, error) {
	if !t.rowid {
		return c.copyKeyed(t)
	}
	var lost []stretch
	for at := int64(math.MinInt64); ; {
		last, readErr, err := c.insert(t, c.from, fmt.Sprintf(`SELECT rowid, %s FROM "%s" WHERE rowid >= ?1 ORDER BY rowid`, t.list(), t.name), at)
		if err != nil || readErr == nil {
			return lost, err
		}
		if last != math.MinInt64 && last >= at {
			at = last + 1
		}
		next, ok := c.beyond(t, at)
		if !ok {
			return append(lost, stretch{at, math.MaxInt64}), nil
		}
		if next == at || !c.readable(t, next) { // a row whose overflow pages are lost
			lost = append(lost, stretch{at, next})
			at = next + 1
			continue
		}
		lost = append(lost, stretch{at, next - 1})
		at = next
	}
}

func (c *copier) readable(t *table, rowid int64) bool {
	return query(c.from, fmt.Sprintf(`SELECT %s FROM "%s" WHERE rowid = ?1`, t.list(), t.name), nil, rowid) == nil
}

// beyond finds the first row after a damaged page: it doubles its steps, and then halves the last one.
func (c *copier) beyond(t *table, at int64) (rowid int64, ok bool) {
	probe := func(x int64) (found int64, ok bool, err error) {
		err = query(c.from, fmt.Sprintf(`SELECT rowid FROM "%s" WHERE rowid >= ?1 ORDER BY rowid LIMIT 1`, t.name), func(s *sqlite.Stmt) {
			found, ok = s.ColumnInt64(0), true
		}, x)
		return found, ok, err
	}
	start := max(at, -1)
	if found, some, err := probe(at); err == nil {
		return found, some
	}
	for step := int64(1); ; step *= 2 {
		x := start + step
		if x < start || step <= 0 {
			return 0, false
		}
		found, some, err := probe(x)
		if err != nil {
			continue
		}
		low, high := start+step/2, x // it fails at low
		for low+1 < high {
			middle := low + (high-low)/2
			if f, a, err := probe(middle); err == nil {
				high, found, some = middle, f, a
			} else {
				low = middle
			}
		}
		return found, some
	}
}

// insert copies the rows of a query, whose first column is the rowid, until one cannot be read.
func (c *copier) insert(t *table, from *sqlite.Conn, sql string, args ...any) (last int64, readErr, err error) {
	last = math.MinInt64
	marks := strings.TrimSuffix(strings.Repeat("?,", len(t.columns)), ",")
	put, err := c.to.Prepare(fmt.Sprintf(`INSERT OR %s INTO "%s"(%s) VALUES (%s)`, c.or, t.name, t.list(), marks))
	if err != nil {
		return last, nil, err
	}
	if err := sqlitex.ExecuteTransient(c.to, "BEGIN", nil); err != nil {
		return last, nil, err
	}
	var putErr error
	readErr = sqlitex.ExecuteTransient(from, sql, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
		for i := range t.columns {
			bind(put, i+1, s, i+1)
		}
		_, putErr = put.Step()
		putErr = errors.Join(putErr, put.Reset())
		if putErr == nil {
			last = s.ColumnInt64(0)
			if c.took != nil && c.to.Changes() > 0 {
				c.took(s)
			}
		}
		return putErr
	}})
	if putErr != nil {
		readErr = nil
	}
	return last, readErr, errors.Join(putErr, sqlitex.ExecuteTransient(c.to, "COMMIT", nil))
}

func bind(put *sqlite.Stmt, param int, s *sqlite.Stmt, col int) {
	switch s.ColumnType(col) {
	case sqlite.TypeInteger:
		put.BindInt64(param, s.ColumnInt64(col))
	case sqlite.TypeFloat:
		put.BindFloat(param, s.ColumnFloat(col))
	case sqlite.TypeText:
		put.BindText(param, s.ColumnText(col))
	case sqlite.TypeBlob:
		b := make([]byte, s.ColumnLen(col))
		s.ColumnBytes(col, b)
		put.BindBytes(param, b)
	default:
		put.BindNull(param)
	}
}

// copyKeyed copies a table without rowids from both ends.
func (c *copier) copyKeyed(t *table) ([]stretch, error) {
	key := quoted(t.key)
	sql := fmt.Sprintf(`SELECT 0, %s FROM "%s" ORDER BY `, t.list(), t.name)
	_, readErr, err := c.insert(t, c.from, sql+strings.Join(key, ","))
	if err != nil || readErr == nil {
		return nil, err
	}
	_, _, err = c.insert(t, c.from, sql+strings.Join(key, " DESC,")+" DESC")
	return []stretch{{math.MinInt64, math.MaxInt64}}, err
}
