package repair

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"
)

// Losses describes for people what a database has lost, one line each.
func (r *Report) Losses() (lines []string) {
	for _, c := range r.Counts {
		if c.Least == c.Most {
			lines = append(lines, fmt.Sprintf("%d %s", c.Most, c.What))
		} else {
			lines = append(lines, fmt.Sprintf("between %d and %d %s", c.Least, c.Most, c.What))
		}
	}
	if r.Commits > 0 {
		least := ""
		if r.AtLeast {
			least = "at least "
		}
		lines = append(lines, fmt.Sprintf("whatever was written last: %s%d commits", least, r.Commits))
	}
	for _, l := range r.Lost {
		line := strings.TrimSpace(l.What + " " + l.Key + " " + l.To)
		switch {
		case l.AtMost && l.Rows == 1:
			line += ", if there were any"
		case l.AtMost && l.Rows > 0:
			line += fmt.Sprintf(": at most %d", l.Rows)
		case l.Rows > 1:
			line += fmt.Sprintf(": %d", l.Rows)
		}
		lines = append(lines, line)
	}
	return lines
}

// fill replaces unreadable rows by their state before the log lost something, and lists them as lost: they may have changed since.
func (c *copier) fill(t *table, before string, lost []stretch) error {
	conn, closing, err := connect(before, true)
	if err != nil {
		return nil // then there is nothing to take
	}
	c.or = "IGNORE"
	defer func() { c.or = "REPLACE"; _ = closing() }()
	if !t.rowid {
		return c.take(t, conn, fmt.Sprintf(`SELECT 0, %s FROM "%s"`, t.list(), t.name))
	}
	for _, s := range lost {
		err := c.take(t, conn, fmt.Sprintf(`SELECT rowid, %s FROM "%s" WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid`, t.list(), t.name), s.first, s.last)
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) take(t *table, from *sqlite.Conn, sql string, args ...any) error {
	n := 0
	c.took = func(s *sqlite.Stmt) {
		n++
		c.lose(t, Loss{What: "changes of a row of " + t.name, Key: t.keyOf(s, 1), Rows: 1, AtMost: true})
	}
	defer func() { c.took = nil }()
	_, _, err := c.insert(t, from, sql, args...)
	c.r.restored += int64(n)
	return err
}

func (c *copier) lose(t *table, l Loss) {
	if !c.quiet[t.name] {
		c.r.Lost = append(c.r.Lost, l)
	}
}

// keyOf returns the key of a row as text, from the key's columns, which begin at column first of a statement.
func (t *table) keyOf(s *sqlite.Stmt, first int) string {
	var parts []string
	for i, name := range t.columns {
		if slices.Contains(t.key, name) || len(t.key) == 0 && i == 0 {
			parts = append(parts, s.ColumnText(first+i))
		}
	}
	return strings.Join(parts, " ")
}

// name reports the lost rows by name, from an index that still has them. If no index with all rows could be read to its end, it also
// reports where rows are missing, and how many at most.
func (c *copier) name(t *table, lost []stretch) {
	found, complete := map[string]string{}, false
	_ = query(c.from, "SELECT name, coalesce(sql, '') FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1", func(s *sqlite.Stmt) {
		index, where := s.ColumnText(0), ""
		if i := strings.Index(s.ColumnText(1), " WHERE "); i > 0 {
			where = s.ColumnText(1)[i:]
		}
		if c.scan(t, index, where, found) && where == "" {
			complete = true
		}
	}, t.name)
	if t.rowid {
		for key := range found {
			if n, err := strconv.ParseInt(key, 10, 64); err == nil {
				c.lost[t.name] = append(c.lost[t.name], n)
			}
		}
	}
	if c.quiet[t.name] {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		c.lose(t, Loss{What: "row of " + t.name, Key: found[key], Rows: 1})
	}
	if complete {
		return
	}
	if !t.rowid {
		c.lose(t, Loss{What: "rows of " + t.name, Key: "that nothing names"})
		return
	}
	end, bounded := c.end(t)
	for _, s := range lost {
		s.first = max(s.first, 1)
		if bounded {
			s.last = min(s.last, end)
		}
		l := Loss{What: "rows of " + t.name, Key: s.text(), AtMost: true}
		if s.last < math.MaxInt64 {
			l.Rows = max(0, s.last-s.first+1-c.kept(t, s)-named(found, s))
			if l.Rows == 0 {
				continue
			}
		}
		c.lose(t, l)
	}
}

func (s stretch) text() string {
	if s.last == math.MaxInt64 {
		return fmt.Sprintf("from %d on", s.first)
	}
	return fmt.Sprintf("%d to %d", s.first, s.last)
}

// end returns the highest row number ever assigned, if that is known.
func (c *copier) end(t *table) (rowid int64, known bool) {
	if slices.Contains(c.counted, t.name) && c.r.noted.Stored > 0 {
		return c.r.noted.Stored, true
	}
	_ = query(c.from, "SELECT seq FROM sqlite_sequence WHERE name = ?1", func(s *sqlite.Stmt) { rowid, known = s.ColumnInt64(0), true }, t.name)
	return rowid, known
}

// kept returns how many rows of a stretch were saved.
func (c *copier) kept(t *table, s stretch) (n int64) {
	_ = query(c.to, fmt.Sprintf(`SELECT count(*) FROM "%s" WHERE rowid BETWEEN ?1 AND ?2`, t.name), func(s *sqlite.Stmt) { n = s.ColumnInt64(0) }, s.first, s.last)
	return n
}

func named(found map[string]string, s stretch) (n int64) {
	for key := range found {
		var rowid int64
		if _, err := fmt.Sscan(key, &rowid); err == nil && rowid >= s.first && rowid <= s.last {
			n++
		}
	}
	return n
}

// scan searches an index for missing rows, and returns false if the index could not be read to its end.
func (c *copier) scan(t *table, index, where string, found map[string]string) bool {
	columns, id := c.indexed(index), "rowid"
	if !t.rowid {
		id = strings.Join(quoted(t.key), "||' '||")
	}
	match := "rowid = ?1"
	if !t.rowid {
		match = id + " = ?1"
	}
	there, err := c.to.Prepare(fmt.Sprintf(`SELECT 1 FROM "%s" WHERE %s`, t.name, match))
	if err != nil || len(columns) == 0 {
		return false
	}
	text := fmt.Sprintf(`SELECT %s, %s FROM "%s" INDEXED BY "%s"%s`, id, strings.Join(quoted(columns), ","), t.name, index, where)
	return query(c.from, text, func(s *sqlite.Stmt) {
		key := s.ColumnText(0)
		if t.rowid {
			there.BindInt64(1, s.ColumnInt64(0))
		} else {
			there.BindText(1, key)
		}
		kept, _ := there.Step()
		_ = there.Reset()
		if kept {
			return
		}
		if name := nameIn(s, t, key, columns); len(name) > len(found[key]) {
			found[key] = name
		}
	}) == nil
}

// nameIn returns a row's name from an index. If the index has texts it omits numbers, which mean nothing to people.
func nameIn(s *sqlite.Stmt, t *table, key string, columns []string) (name string) {
	if !t.rowid {
		return key
	}
	texts, all := key, key
	for i, column := range columns {
		text := s.ColumnText(i + 1)
		if text == key || column == "open" {
			continue
		}
		all += " " + text
		if s.ColumnType(i+1) == sqlite.TypeText {
			texts += " " + text
		}
	}
	if texts != key {
		return texts
	}
	return all
}

func (c *copier) indexed(index string) (columns []string) {
	err := query(c.from, "SELECT name FROM pragma_index_info(?1)", func(s *sqlite.Stmt) { columns = append(columns, s.ColumnText(0)) }, index)
	if err != nil {
		return nil
	}
	return columns
}

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = `"` + name + `"`
	}
	return out
}
