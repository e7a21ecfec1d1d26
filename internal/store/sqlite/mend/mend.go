// Package mend repairs a damaged database that nobody has open: what it can make exact it does, of the rest it saves the rows
// that are whole, and it says what is lost. DESIGN.md in internal/store says how.
package mend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// Loss is something that could not be saved.
type Loss struct {
	What string `json:"what"`
	Key  string `json:"key,omitempty"`
	To   string `json:"to,omitempty"` // of a notification
}

// Report is what was done to a database.
type Report struct {
	File    string   `json:"file"`
	State   string   `json:"state"` // whole, mended, rebuilt, lost
	Mended  []string `json:"mended,omitempty"`
	Commits int      `json:"lost_commits,omitempty"` // of the log, at least
	Lost    []Loss   `json:"lost,omitempty"`
}

// States of a database after the repair.
const (
	Whole   = "whole"   // there was nothing to do
	Mended  = "mended"  // nothing is lost, but for Commits
	Rebuilt = "rebuilt" // from the rows that were whole
	Gone    = "lost"    // nothing could be saved: it is empty
)

// Job is a database to repair.
type Job struct {
	Path  string
	Copy  string // folder where copies of what is touched are kept
	Store checkvfs.ID
	Blank string // an empty database of the same kind
	Rules []Rule // what must fit together in it
}

// Rule removes what a loss has left without meaning. Find yields a Loss in each row: what, key, to.
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
		r.Mended = nil
		r.Lost = append(r.Lost, Loss{What: "everything: an empty one is in its place"})
		return j.replaceBy(ctx, r, j.Blank, Gone)
	}
	image := j.Path + ".mend"
	defer removeAll(image, image+"2", image+"3")
	if err := s.write(image, j.Store); err != nil {
		return r, err
	}
	if len(s.bad) == 0 && j.intact(ctx, image) {
		return j.replaceBy(ctx, r, image, Mended)
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
	return j.replaceBy(ctx, r, image+"2", Rebuilt)
}

// sound reports whether nothing has to be done.
func (j *Job) sound(ctx context.Context) bool {
	d, err := checkvfs.Verify(ctx, j.Path, 0, nil)
	if err != nil || len(d.Errors) > 0 {
		return false
	}
	id := checkvfs.StoreOf(j.Path)
	return id == j.Store && j.intact(ctx, j.Path)
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
			_ = os.Remove(path + suffix) // what is left is in nobody's way
		}
	}
}

// replaceBy puts a database in the place of the damaged one, with checksums.
func (j *Job) replaceBy(_ context.Context, r Report, from, state string) (Report, error) {
	r.State = state
	b, err := os.ReadFile(from)
	if err != nil {
		return r, err
	}
	next := j.Path + ".next"
	defer removeAll(next)
	if err := writeSynced(next, b); err != nil {
		return r, err
	}
	// The log and the checksums go first: without them, what is in the place counts as damaged until this has ended.
	for _, suffix := range suffixes[1:] {
		if err := os.Remove(j.Path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
	}
	if err := os.Rename(next, j.Path); err != nil {
		return r, err
	}
	return r, Seal(j.Path, j.Store)
}

// Seal makes the checksums of a database that nobody has open.
func Seal(path string, store checkvfs.ID) error {
	f, err := checkvfs.Open(path, checkvfs.Options{Store: store})
	if err != nil {
		return err
	}
	return f.Close()
}

// state is the pages of a database as far as they are known.
type state struct {
	size   int // of a page
	base   []byte
	log    map[uint32][]byte
	pages  int64
	bad    map[int64]bool
	before *state
}

// read finds what can be known of each page; nil: of the database as a whole nothing can be.
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
	if k.Store != j.Store && k.Store != (checkvfs.ID{}) {
		r.Lost = append(r.Lost, Loss{What: "it belongs to another store, " + k.Store.String() + ": what was in its place is lost"})
		return nil, nil
	}
	for _, b := range k.Broken {
		r.Mended = append(r.Mended, b+": made anew")
	}
	m := walfile.Mend(wal, size, k.Mark, k.LogHeader, k.Notes)
	r.Mended = append(r.Mended, m.Notes...)
	before := m.Before
	if before == nil {
		before = &walfile.Mended{PageSize: size, Pages: maps.Clone(m.Pages), Size: m.Size, Commits: m.Commits}
	}
	ahead, missing := newest(base, size, k, m)
	if missing == 0 {
		return overlay(base, size, k, m, r), nil
	}
	r.Commits = max(1, int(k.Mark.Commits)-before.Commits)
	s := overlay(base, size, k, m, r)
	if m.Blind || s == nil || s.bad[1] || ahead == 0 && m.Before == nil {
		return overlay(base, size, k, before, r), nil // nobody knows which pages are older than they should be, or nothing is newer
	}
	s.before = overlay(base, size, k, before, &Report{})
	return s, nil
}

// newest finds the newest version of each page by what was noted of the log's frames: it may be in the log or, if it was
// copied, in the database. missing counts those that are in neither, ahead those that only the database has.
func newest(base []byte, size int, k *checkvfs.Kept, m *walfile.Mended) (ahead, missing int) {
	frames := int((k.Mark.Bytes - walfile.HeaderSize) / int64(size+walfile.FrameHead))
	if k.Mark.Bytes == 0 || m.Salts != (walfile.Salts{}) && m.Salts != k.Mark.Salts {
		return 0, len(m.Holes)
	}
	if frames > len(k.Notes) {
		return 0, len(m.Holes)
	}
	last := make(map[uint32]walfile.Note)
	for _, n := range k.Notes[:frames] {
		if n.Page == 0 { // not noted: a power cut
			return 0, max(len(m.Holes), frames-m.Frames)
		}
		last[n.Page] = n
		if n.Pages > 0 && m.Frames < frames {
			m.Size = int64(n.Pages)
		}
	}
	if m.Frames > frames { // whole commits that nobody was told of
		return 0, len(m.Holes)
	}
	m.Copied = make(map[uint32]bool)
	for page, n := range last {
		if b, ok := m.Pages[page]; ok && walfile.Sum(b) == n.Sum {
			continue
		}
		delete(m.Pages, page)
		if m.Holes == nil {
			m.Holes = map[uint32]int{}
		}
		m.Holes[page] = 0
		if end := int(page) * size; end <= len(base) && walfile.MendPage(base[end-size:end], n.Sum) {
			delete(m.Holes, page)
			m.Copied[page] = true
			ahead++
		} else {
			missing++
		}
	}
	m.Blind = false
	return ahead, missing
}

// overlay lays the pages of a log over those of the database, and mends or gives up what does not fit its checksum.
func overlay(base []byte, size int, k *checkvfs.Kept, m *walfile.Mended, r *Report) *state {
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
			continue // the newest, whatever its own checksum says: that may not have been written yet
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
			r.Mended = append(r.Mended, fmt.Sprintf("page %d: a flipped bit was put right", page))
		case page == 1 && k.Is(1, k.FirstPage):
			copy(b, k.FirstPage)
			r.Mended = append(r.Mended, "page 1 was restored from its copy")
		default:
			s.bad[page] = true
		}
	}
	return s
}

// write writes the pages as a database, with checksums that nothing lost fits to.
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
		return nil // without it, it is no database
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
