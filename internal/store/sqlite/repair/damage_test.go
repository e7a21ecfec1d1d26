package repair_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/repair"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/sqlite/walfile"
	"godwit.dev/godwit/internal/testkit/thorough"
)

const (
	pageSize = 4096
	batch    = 20 // rows of a commit
)

var schema = []string{`
	CREATE TABLE thing(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, open INTEGER NOT NULL, body TEXT NOT NULL);
	CREATE INDEX thing_open ON thing(id) WHERE open = 1;
	CREATE TABLE keyed(app TEXT, name TEXT, body TEXT NOT NULL, PRIMARY KEY(app, name)) WITHOUT ROWID;
	CREATE INDEX keyed_name ON keyed(name);`}

var store = checkvfs.ID{7}

var kind = repair.Kind{
	Tally: "SELECT coalesce(max(id), 0), coalesce(sum(open), 0) FROM thing",
	Table: "thing", Of: "open things",
}

// world is a database before its damage.
type world struct {
	*testing.T
	path  string
	db    *sqlitedb.DB
	tally walfile.Tally
	rows  map[string]string // by table and name
}

func body(name string) string {
	n := 300
	if strings.HasSuffix(name, "77") {
		n = 9000 // so large that it takes overflow pages
	}
	return name + strings.Repeat(" x", n/2)
}

func open(t *testing.T, path string, count func(*sqlite.Conn) (walfile.Tally, error)) *sqlitedb.DB {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), path, sqlitedb.Options{
		AppID: 1, Migrations: schema, Guard: sqlitedb.Guard{Store: store}, Hooks: sqlitedb.Hooks{Count: count},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func begin(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, path: filepath.Join(t.TempDir(), "a.db"), rows: map[string]string{}}
	w.db = open(t, w.path, func(*sqlite.Conn) (walfile.Tally, error) { return w.tally, nil })
	return w
}

// put stores the things and keyed rows of a range of numbers, in commits of batch each. Every third thing is open.
func (w *world) put(from, to int) {
	w.Helper()
	for i := from; i < to; i += batch {
		err := w.db.Do(w.Context(), func(c *sqlite.Conn) error {
			for j := i; j < min(i+batch, to); j++ {
				name, open := fmt.Sprintf("n%d", j), 0
				if j%3 == 0 {
					open = 1
				}
				err := sqlitex.Execute(c, "INSERT INTO thing VALUES (?, ?, ?, ?)", &sqlitex.ExecOptions{Args: []any{j + 1, name, open, body(name)}})
				if err == nil {
					err = sqlitex.Execute(c, "INSERT INTO keyed VALUES ('a', ?, ?)", &sqlitex.ExecOptions{Args: []any{name, body(name)}})
				}
				if err != nil {
					return err
				}
				w.rows["thing "+name], w.rows["keyed "+name] = body(name), body(name)
				w.tally.Stored = int64(j + 1)
				w.tally.Open += int64(open)
			}
			return nil
		})
		if err != nil {
			w.Fatal(err)
		}
	}
}

// closed returns a database without a log.
func closed(t *testing.T) *world {
	t.Helper()
	w := begin(t)
	w.put(0, 400)
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	return w
}

// killed returns a database whose server was killed: half of the log was copied into it, and the rest is only in the log.
func killed(t *testing.T) *world {
	t.Helper()
	w := begin(t)
	w.put(0, 200)
	w.db.CopyLog()
	held, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		err := w.db.Read(context.Background(), func(c *sqlite.Conn) error {
			defer func() { close(held); <-end }()
			return sqlitex.Execute(c, "SELECT 1 FROM thing LIMIT 1", nil)
		})
		if err != nil {
			t.Error(err)
		}
	}()
	<-held // from here on the log is not copied
	w.put(200, 400)
	path := w.copy(t)
	close(end)
	<-done
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	w.path = path
	return w
}

var suffixes = []string{"", "-wal", checkvfs.Suffix, checkvfs.NoteSuffix}

// copy copies the current files.
func (w *world) copy(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "a.db")
	for _, suffix := range suffixes {
		b, err := os.ReadFile(w.path + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(path+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// repair repairs a copy that harm has damaged, and returns it with its contents.
func (w *world) repair(t *testing.T, harm func(path string)) (path string, r repair.Report, left map[string]string) {
	t.Helper()
	path = w.copy(t)
	harm(path)
	blank := filepath.Join(t.TempDir(), "blank.db")
	if err := open(t, blank, nil).Close(); err != nil {
		t.Fatal(err)
	}
	j := repair.Job{Path: path, Copy: filepath.Join(filepath.Dir(path), "copies"), Store: store, Blank: blank, Kind: kind}
	r, err := j.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlitedb.Open(t.Context(), path, sqlitedb.Options{AppID: 1, Migrations: schema, Guard: sqlitedb.Guard{Store: store, Checked: true}}, nil)
	if err != nil {
		t.Fatalf("after the repair: %v; %+v", err, r)
	}
	defer db.Close()
	left = map[string]string{}
	err = db.Read(t.Context(), func(c *sqlite.Conn) error {
		row := &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			left[s.ColumnText(0)] = s.ColumnText(1)
			return nil
		}}
		err := sqlitex.Execute(c, "SELECT 'thing ' || name, body FROM thing UNION ALL SELECT 'keyed ' || name, body FROM keyed", row)
		if err != nil {
			return err
		}
		return sqlitex.Execute(c, "PRAGMA integrity_check", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			if s.ColumnText(0) != "ok" {
				t.Errorf("the repaired database: %s", s.ColumnText(0))
			}
			return nil
		}})
	})
	if err != nil {
		t.Fatal(err)
	}
	return path, r, left
}

// judge compares the remaining rows with the rows before and with the report. exact: the report names each row.
func (w *world) judge(t *testing.T, r *repair.Report, left map[string]string) (missing int, exact bool) {
	t.Helper()
	claimed, most, unbounded := map[string]bool{}, map[string]int64{}, map[string]bool{}
	for _, l := range r.Lost {
		switch table, ok := strings.CutPrefix(l.What, "row of "); {
		case ok:
			fields := strings.Fields(l.Key)
			claimed[table+" "+fields[len(fields)-1]] = true
		case strings.HasPrefix(l.What, "rows of "):
			table = strings.TrimPrefix(l.What, "rows of ")
			most[table] += l.Rows
			unbounded[table] = unbounded[table] || l.Rows == 0
		}
	}
	exact, open := true, int64(0)
	lostOf := map[string]int64{}
	for row, want := range w.rows {
		got, ok := left[row]
		table, name, _ := strings.Cut(row, " ")
		var n int
		_, _ = fmt.Sscanf(name, "n%d", &n)
		switch {
		case ok && got != want:
			t.Errorf("%s is altered: %.20q", row, got)
		case ok && claimed[row]:
			t.Errorf("%s is there and was called lost", row)
		case !ok:
			missing++
			if table == "thing" && n%3 == 0 {
				open++
			}
			if byNumber := table == "thing" && claimed["thing "+fmt.Sprint(n+1)]; !claimed[row] && !byNumber {
				exact = false
				lostOf[table]++
			}
		}
	}
	all := r.State == repair.Gone || r.Commits > 0
	for table, n := range lostOf {
		if n > most[table] && !unbounded[table] && !all {
			t.Errorf("%d rows of %s are missing beside those named, and at most %d are said to be: %+v", n, table, most[table], r)
		}
	}
	if missing > 0 && r.Lossless() {
		t.Errorf("%d rows are missing, and nothing is said", missing)
	}
	counted := repair.Count{}
	if len(r.Counts) > 0 {
		counted = r.Counts[0]
	}
	if open > counted.Most || open < counted.Least {
		t.Errorf("%d open things are missing, the report counts %+v: %+v", open, counted, r)
	}
	return missing, exact
}

func flip(t *testing.T, path string, at int64, bit int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		b[at] ^= 1 << bit
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func zero(t *testing.T, path string, from, to int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		clear(b[from:min(to, int64(len(b)))])
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestRepairLeavesWholeDatabaseAlone(t *testing.T) {
	for name, w := range map[string]*world{"closed": closed(t), "killed": killed(t)} {
		path, r, left := w.repair(t, func(string) {})
		if n, _ := w.judge(t, &r, left); n > 0 || r.State != repair.Whole || len(r.Repaired) > 0 || !r.Lossless() {
			t.Errorf("%s: %d missing, %+v", name, n, r)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "copies")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: copies were kept of what was not touched: %v", name, err)
		}
	}
}

func TestEveryFlippedBitIsPutRight(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for name, w := range map[string]*world{"closed": closed(t), "killed": killed(t)} {
		for _, suffix := range suffixes {
			if _, err := os.Stat(w.path + suffix); err != nil {
				continue
			}
			for range thorough.Rounds(1, 2) {
				at, bit := rnd.Int64N(size(t, w.path+suffix)), rnd.IntN(8)
				_, r, left := w.repair(t, func(path string) { flip(t, path+suffix, at, bit) })
				if n, _ := w.judge(t, &r, left); n > 0 || !r.Lossless() {
					t.Errorf("%s, bit %d at %d of %q: %d missing, %+v", name, bit, at, suffix, n, r)
				}
			}
		}
	}
}

func TestRowsOfLostPageAreListed(t *testing.T) {
	w := closed(t)
	pages, named := size(t, w.path)/pageSize, 0
	lost, every := 0, int64(16)
	if thorough.Run() {
		every = 8
	}
	for page := range pages {
		if page > 6 && page%every != 0 { // most of them are leaves
			continue
		}
		_, r, left := w.repair(t, func(path string) { zero(t, path, page*pageSize, (page+1)*pageSize) })
		n, exact := w.judge(t, &r, left)
		if n > 0 {
			lost++
		}
		if n > 0 && exact {
			named++
		}
		if n == 0 && !r.Lossless() {
			t.Errorf("page %d: nothing is missing, and the report says %+v", page+1, r)
		}
		if t.Failed() {
			t.Fatalf("page %d", page+1)
		}
	}
	if lost == 0 || named < lost {
		t.Errorf("of %d pages that lose rows %d have them named one by one", lost, named)
	}
}

func TestRowsOfTruncatedDatabaseAreCounted(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for name, w := range map[string]*world{"closed": closed(t), "killed": killed(t)} {
		for range thorough.Rounds(2, 4) {
			at := rnd.Int64N(size(t, w.path))
			_, r, left := w.repair(t, func(path string) {
				if err := os.Truncate(path, at); err != nil {
					t.Fatal(err)
				}
			})
			w.judge(t, &r, left)
			if t.Failed() {
				t.Fatalf("%s, cut off at %d of %d", name, at, size(t, w.path))
			}
		}
	}
}

func TestCommitsThatALogLostAreCounted(t *testing.T) {
	w := killed(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	bytesOf := size(t, w.path+"-wal")
	for i := range thorough.Rounds(4, 8) {
		at := rnd.Int64N(bytesOf)
		harm := func(path string) error { return os.Truncate(path+"-wal", at) }
		if i == 0 {
			harm = func(path string) error { return os.Remove(path + "-wal") }
		}
		_, r, left := w.repair(t, func(path string) {
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
		})
		missing, _ := w.judge(t, &r, left)
		if want := missing / 2 / batch; r.Commits != want || missing%(2*batch) != 0 || len(r.Lost) > 0 {
			t.Errorf("cut off at %d of %d: %d rows are missing, %d commits, %+v", at, bytesOf, missing, want, r)
		}
	}
}

func TestRowsOfLostFrameAreListed(t *testing.T) {
	w := killed(t)
	frames := (size(t, w.path+"-wal") - walfile.HeaderSize) / (pageSize + walfile.FrameHead)
	every := int64(41)
	if thorough.Run() {
		every = 23
	}
	for frame := int64(0); frame < frames; frame += every {
		_, r, left := w.repair(t, func(path string) {
			at := walfile.HeaderSize + frame*(pageSize+walfile.FrameHead)
			zero(t, path+"-wal", at, at+pageSize+walfile.FrameHead)
		})
		w.judge(t, &r, left)
		if t.Failed() {
			t.Fatalf("frame %d of %d: %+v", frame+1, frames, r)
		}
	}
}

func TestMissingDatabaseIsRecreatedEmpty(t *testing.T) {
	w := closed(t)
	_, r, left := w.repair(t, func(path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	})
	if w.judge(t, &r, left); r.State != repair.Gone || len(left) > 0 || len(r.Counts) != 1 || r.Counts[0].Least < r.Counts[0].Most {
		t.Errorf("%d rows are left of a lost database: %+v", len(left), r)
	}
}

func TestLostChecksumsAreMadeAnew(t *testing.T) {
	for name, w := range map[string]*world{"closed": closed(t), "killed": killed(t)} {
		_, r, left := w.repair(t, func(path string) {
			if err := os.Remove(path + checkvfs.Suffix); err != nil {
				t.Fatal(err)
			}
		})
		if n, _ := w.judge(t, &r, left); n > 0 || !r.Lossless() || r.State != repair.Repaired {
			t.Errorf("%s: %d missing, %+v", name, n, r)
		}
	}
}

func TestADatabaseOfAnotherStoreIsNotTaken(t *testing.T) {
	w, other := closed(t), filepath.Join(t.TempDir(), "b.db")
	db, err := sqlitedb.Open(t.Context(), other, sqlitedb.Options{AppID: 1, Migrations: schema, Guard: sqlitedb.Guard{Store: checkvfs.ID{8}}}, nil)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, r, left := w.repair(t, func(path string) {
		for _, suffix := range []string{"", checkvfs.Suffix} {
			if err := os.Rename(other+suffix, path+suffix); err != nil {
				t.Fatal(err)
			}
		}
	})
	if r.State != repair.Gone || len(left) > 0 || len(r.Lost) == 0 || !strings.Contains(r.Lost[0].What, "another store") {
		t.Errorf("%d rows, %+v", len(left), r)
	}
}

func TestRepairKeepsCopiesOfFilesItTouches(t *testing.T) {
	w := killed(t)
	var before [][]byte
	path, _, _ := w.repair(t, func(path string) {
		zero(t, path+"-wal", 0, 2*pageSize)
		for _, suffix := range suffixes {
			b, err := os.ReadFile(path + suffix)
			if err != nil {
				t.Fatal(err)
			}
			before = append(before, b)
		}
	})
	for i, suffix := range suffixes {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(path), "copies", "a.db"+suffix))
		if err != nil || !bytes.Equal(b, before[i]) {
			t.Errorf("the copy of %q: %d bytes of %d, %v", suffix, len(b), len(before[i]), err)
		}
	}
}
