package store

import (
	"errors"
	"path/filepath"
	"sync"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// Damaged reports whether err means that stored files are damaged or missing, and in which folder; "": it does not.
func Damaged(err error) (data string) {
	var (
		page    *checkvfs.DamageError
		foreign *checkvfs.ForeignError
		log     *walfile.Damage
		missing *MissingError
		broken  *BrokenManifestError
		corrupt *sqlitedb.DamageError
	)
	var path string
	switch {
	case errors.As(err, &page):
		path = page.Path
	case errors.As(err, &foreign):
		path = foreign.Path
	case errors.As(err, &log):
		path = log.Path
	case errors.As(err, &missing):
		path = missing.Path
	case errors.As(err, &broken):
		path = broken.Path
	case errors.As(err, &corrupt):
		path = corrupt.Path
	default:
		return ""
	}
	return filepath.Dir(path)
}

// damage is the first damage found. It may be found before all files are open.
type damage struct {
	sync.Mutex
	err  error
	open bool // all files are
}

// damaged stops all writes when one file is found damaged: acknowledged data refers to other files, and an operator should
// examine the damage before more is written. Readable files can still be read.
func (s *Stores) damaged(err error) {
	s.damage.Lock()
	first := s.damage.err == nil
	if first {
		s.damage.err = err
	}
	open := s.damage.open
	s.damage.Unlock()
	if !first {
		return
	}
	if open {
		s.Refuse(err)
	}
	if s.told != nil {
		s.told(err)
	}
}

// guarded is called when all files are open.
func (s *Stores) guarded() {
	s.damage.Lock()
	s.damage.open = true
	err := s.damage.err
	s.damage.Unlock()
	if err != nil {
		s.Refuse(err)
	}
}

// Damage returns the first damage found, or nil.
func (s *Stores) Damage() error {
	s.damage.Lock()
	defer s.damage.Unlock()
	return s.damage.err
}

// Refuse ends storing for good: nothing is acknowledged any more.
func (s *Stores) Refuse(err error) {
	for i := range s.parts {
		if db := s.parts[i].db; db != nil {
			db.Refuse(err)
		}
	}
}

// Gone says which of the files in use was removed, replaced or truncated; nil: none.
func (s *Stores) Gone() error {
	if s.manifest == nil {
		return nil
	}
	for i := range s.parts {
		if err := s.parts[i].db.Gone(); err != nil {
			return err
		}
	}
	return s.manifest.gone(s.data)
}
