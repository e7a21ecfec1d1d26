// Package repair repairs a damaged database that is not in use: it restores exactly what can be restored, saves the complete rows of the
// rest, and reports the losses. DESIGN.md in internal/store describes how.
package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// Loss is a group of things that could not be saved.
type Loss struct {
	What   string `json:"what"`
	Key    string `json:"key,omitempty"`
	To     string `json:"to,omitempty"`      // of a notification
	Rows   int64  `json:"rows,omitempty"`    // number of lost things; 0: unknown
	AtMost bool   `json:"at_most,omitempty"` // some of them may have been deleted before, or be unchanged
}

// Count is how many things of a kind are missing.
type Count struct {
	What  string `json:"what"`
	Least int64  `json:"at_least"`
	Most  int64  `json:"at_most"` // equal to Least if the number is exact
}

// Report is the result of a repair.
type Report struct {
	File     string   `json:"file"`
	State    string   `json:"state"` // whole, mended, rebuilt, lost
	Repaired []string `json:"mended,omitempty"`
	Commits  int      `json:"lost_commits,omitempty"`   // number of last commits of which nothing is left
	AtLeast  bool     `json:"commits_unsure,omitempty"` // more commits may be lost, because of a power cut before
	Counts   []Count  `json:"lost_in_all,omitempty"`    // numbers of missing things; Lost names them, as far as known
	Lost     []Loss   `json:"lost,omitempty"`

	noted    walfile.Tally // with the last commit
	restored int64         // rows restored to their state some commits earlier
}

// Lossless reports whether nothing was lost.
func (r *Report) Lossless() bool {
	return r.Commits == 0 && len(r.Counts) == 0 && len(r.Lost) == 0 && r.State != Gone
}

// States of a database after the repair.
const (
	Whole    = "whole"   // there was nothing to do
	Repaired = "mended"  // every page is exact, except for lost Commits
	Rebuilt  = "rebuilt" // rebuilt from its complete rows
	Gone     = "lost"    // nothing could be saved: it is empty
)

// Job is a database to repair.
type Job struct {
	Path  string
	Copy  string // folder for copies of the files that the repair changes
	Store checkvfs.ID
	Blank string // an empty database of the same kind
	Kind
}

// Kind describes databases of one kind, for their repair.
type Kind struct {
	Rules []Rule   // what must fit together
	Tally string   // the query for the counts of a walfile.Tally; "": none
	Table string   // the table of the counted rows, whose row numbers are assigned in order
	Packs string   // another table with counted rows, several to a row; its row number is that of the first; "": none
	Of    string   // and is called
	GoOn  []string // statements that make ?1 the last assigned row number
	// Ready, if not nil, writes the state that other tables hold for rows into these rows, so that Rules and Tally can select by it. lost
	// names the tables that have lost rows.
	Ready func(c *sqlite.Conn, lost Lost) (Readied, error)
	// Differs, if not nil, tells in which way rows of an undamaged file contradict each other, which Ready and Rules put right; empty: they agree.
	Differs func(c *sqlite.Conn) (how string, err error)
	Quiet   map[string]bool // tables whose losses are not reported: they promise nothing, or a rule reports them
}

// Lost are the tables that have lost rows, each with the numbers of those that an index still names.
type Lost map[string][]int64

// Of reports whether a table has lost rows.
func (l Lost) Of(table string) bool {
	_, lost := l[table]
	return lost
}

// Readied is what Ready has done.
type Readied struct {
	Losses   []Loss
	Unsure   int64    // rows that may differ from before
	Repaired []string // what was put right without a loss
}

// Rule removes rows that have become meaningless by a loss. Each row of Find is a Loss: what, key, to, and how many.
type Rule struct{ Find, Remove string }

// Run repairs the database.
func (j *Job) Run(ctx context.Context) (r Report, err error) {
	r = Report{File: filepath.Base(j.Path), State: Whole}
	if j.sound(ctx) {
		return r, nil
	}
	if err := j.keep(); err != nil {
		return r, err
	}
	s, err := j.read(&r)
	if err != nil {
		return r, err
	}
	if s == nil || s.bad[1] || int64(len(s.bad)) >= s.pages-1 {
		r.Repaired, r.Commits = nil, 0
		r.Lost = append(r.Lost, Loss{What: "everything: an empty one is in its place"})
		return j.finish(r, j.Blank, Gone)
	}
	image := j.Path + ".mend"
	defer removeAll(image, image+"2", image+"3")
	if err := s.write(image, j.Store); err != nil {
		return r, err
	}
	if len(s.bad) == 0 && j.intact(ctx, image) {
		if err := j.tidy(&r, image); err != nil {
			return r, err
		}
		return j.finish(r, image, Repaired)
	}
	before := ""
	if s.before != nil {
		before = image + "3"
		if err := s.before.write(before, j.Store); err != nil {
			return r, err
		}
	}
	if err := j.rebuild(ctx, &r, image, before, image+"2"); err != nil {
		return r, err
	}
	return j.finish(r, image+"2", Rebuilt)
}

// finish counts the missing rows and replaces the damaged database by the result.
func (j *Job) finish(r Report, from, state string) (Report, error) {
	r.State = state
	if state == Repaired && len(r.Repaired) == 0 && r.Commits == 0 {
		r.Repaired = append(r.Repaired, "every page is there; its checksums and its log were made anew")
	}
	if j.Tally != "" && r.noted != (walfile.Tally{}) {
		if err := j.count(&r, from); err != nil {
			return r, fmt.Errorf("count what is lost: %w", err)
		}
	}
	return r, j.replaceBy(from)
}

// count compares the number of rows with the recorded count. The result is exact unless changes were lost: then a row that had been deleted
// or settled may be back, and hide a missing one.
func (j *Job) count(r *Report, path string) error {
	was, now := r.noted, walfile.Tally{}
	conn, closing, err := connect(path, false)
	if err != nil {
		return err
	}
	err = query(conn, j.Tally, func(s *sqlite.Stmt) { now.Stored, now.Open = s.ColumnInt64(0), s.ColumnInt64(1) })
	for _, sql := range j.GoOn {
		if err == nil {
			err = query(conn, sql, nil, was.Stored)
		}
	}
	if err = errors.Join(err, closing()); err != nil {
		return err
	}
	least := max(0, was.Open-now.Open)
	most := least
	switch {
	case r.Commits > 0 && was.Stored == 0:
		most = was.Open
	case r.Commits > 0:
		most = max(least, min(was.Open, was.Stored-now.Stored))
	case r.restored > 0:
		most = min(was.Open, least+r.restored)
	}
	if most > 0 {
		r.Counts = append(r.Counts, Count{What: j.Of, Least: least, Most: most})
	}
	return nil
}

// sound reports whether the database needs no repair.
func (j *Job) sound(ctx context.Context) bool {
	d, err := checkvfs.Verify(ctx, j.Path, 0, nil)
	if err != nil || len(d.Errors) > 0 {
		return false
	}
	id := checkvfs.StoreOf(j.Path)
	return id == j.Store && j.intact(ctx, j.Path) && j.agrees()
}

// agrees reports whether the rows of the database fit together. It is false for rows that cannot be read.
func (j *Job) agrees() bool {
	if j.Differs == nil {
		return true
	}
	conn, closing, err := connect(j.Path, true)
	if err != nil {
		return false
	}
	how, err := j.Differs(conn)
	return errors.Join(err, closing()) == nil && how == ""
}

// suffixes of the files of a database.
var suffixes = []string{"", "-wal", "-shm", checkvfs.Suffix, checkvfs.NoteSuffix}

// keep copies what there is.
func (j *Job) keep() error {
	for _, suffix := range suffixes {
		b, err := os.ReadFile(j.Path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.MkdirAll(j.Copy, 0o700)
		}
		if err == nil {
			err = writeSynced(filepath.Join(j.Copy, filepath.Base(j.Path)+suffix), b)
		}
		if err != nil {
			return fmt.Errorf("keep copies: %w", err)
		}
	}
	return nil
}

func writeSynced(path string, b []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Sync()
}

func removeAll(paths ...string) {
	for _, path := range paths {
		for _, suffix := range suffixes {
			_ = os.Remove(path + suffix) // remaining files do no harm
		}
	}
}

// replaceBy replaces the damaged database by another one, with checksums.
func (j *Job) replaceBy(from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	next := j.Path + ".next"
	defer removeAll(next)
	if err := writeSynced(next, b); err != nil {
		return err
	}
	// The log and the checksums are deleted first: without them the database counts as damaged until this has ended.
	for _, suffix := range suffixes[1:] {
		if err := os.Remove(j.Path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(next, j.Path); err != nil {
		return err
	}
	return Seal(j.Path, j.Store)
}

// Seal computes the checksums of a database that is not in use.
func Seal(path string, store checkvfs.ID) error {
	f, err := checkvfs.Open(path, checkvfs.Options{Store: store})
	if err != nil {
		return err
	}
	return f.Close()
}

// state holds the known pages of a database.
type state struct {
	size   int // of a page
	base   []byte
	log    map[uint32][]byte
	pages  int64
	bad    map[int64]bool
	before *state
}

// read determines the content of each page as far as possible; nil: nothing can be determined for the whole database.
func (j *Job) read(r *Report) (*state, error) {
	base, err := os.ReadFile(j.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	wal, err := os.ReadFile(j.Path + "-wal")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	const size = 4096 // all of ours have it
	k, err := checkvfs.ReadKept(j.Path, size)
	if err != nil {
		return nil, err
	}
	r.noted = k.Mark.Tally
	if k.Store != j.Store && k.Store != (checkvfs.ID{}) {
		r.noted = walfile.Tally{}
		r.Lost = append(r.Lost, Loss{What: "it belongs to another store, " + k.Store.String() + ": what was in its place is lost"})
		return nil, nil
	}
	for _, b := range k.Broken {
		r.Repaired = append(r.Repaired, b+": made anew")
	}
	m := walfile.Repair(wal, size, k.Mark, k.LogHeader, k.Notes)
	r.Repaired = append(r.Repaired, m.Notes...)
	n := noted(k, size, m)
	if m.Frames > len(n.frames) { // the log has later commits than the note, so the note's counts are outdated
		r.noted = walfile.Tally{}
	}
	before := n.before(size, m)
	ahead, missing := n.newest(base, size, m)
	s := overlay(base, size, k, m, r)
	if s == nil {
		return nil, nil
	}
	if missing == 0 {
		return s, nil
	}
	older := overlay(base, size, k, before, &Report{})
	if m.Blind || s.bad[1] || ahead == 0 && m.Before == nil { // either the outdated pages are unknown, or no page is newer than the older state
		r.Commits, r.AtLeast = n.commits(k, before), !n.whole
		return older, nil
	}
	s.before = older
	return s, nil
}

// overlay replaces pages of the database by those of a log. It repairs pages that do not match their checksums, or marks them as lost.
func overlay(base []byte, size int, k *checkvfs.Kept, m *walfile.Repaired, r *Report) *state {
	s := &state{size: size, base: base, log: m.Pages, pages: m.Size, bad: make(map[int64]bool)}
	if s.pages == 0 {
		s.pages = max(int64(len(base)/size), int64(len(k.Sums)))
	}
	if s.pages == 0 {
		return nil
	}
	if want := int(s.pages) * size; len(base) < want {
		s.base = append(append(make([]byte, 0, want), base...), make([]byte, want-len(base))...)
	}
	for page := int64(1); page <= s.pages; page++ {
		if _, logged := m.Pages[uint32(page)]; logged {
			continue
		}
		if m.Copied[uint32(page)] {
			continue // this is the newest version, even if its checksum differs, which may not have been written yet
		}
		if _, hole := m.Holes[uint32(page)]; hole {
			s.bad[page] = true
			continue
		}
		b := s.base[(page-1)*int64(size) : page*int64(size)]
		if k.Is(page, b) {
			continue
		}
		sum, _ := k.Sum(page)
		switch {
		case walfile.MendPage(b, sum):
			r.Repaired = append(r.Repaired, fmt.Sprintf("page %d: a flipped bit was put right", page))
		case page == 1 && k.Is(1, k.FirstPage):
			copy(b, k.FirstPage)
			r.Repaired = append(r.Repaired, "page 1 was restored from its copy")
		default:
			s.bad[page] = true
		}
	}
	return s
}

// write writes the pages as a database. The checksums of lost pages are wrong, so that they count as damaged.
func (s *state) write(path string, store checkvfs.ID) error {
	b := append([]byte(nil), s.base[:s.pages*int64(s.size)]...)
	for page, data := range s.log {
		if int64(page) <= s.pages {
			copy(b[int64(page-1)*int64(s.size):], data)
		}
	}
	if err := writeSynced(path, b); err != nil {
		return err
	}
	if s.bad[1] {
		return nil // without page 1 this is no database
	}
	if err := Seal(path, store); err != nil {
		return err
	}
	for page := range s.bad {
		if err := checkvfs.Poison(path, page, b[(page-1)*int64(s.size):page*int64(s.size)]); err != nil {
			return err
		}
	}
	return nil
}
