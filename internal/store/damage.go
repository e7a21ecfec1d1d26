package store

import (
	"errors"
	"path/filepath"
	"sync"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// Damaged returns the data folder if err means that its stored files are damaged or missing; "": err means something else.
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

// damaged stops all writes when one file is damaged: acknowledged data in other files depends on it, and an operator should examine the
// damage before more is written. Readable files can still be read.
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

// Refuse ends all writes permanently: nothing is acknowledged any more.
func (s *Stores) Refuse(err error) {
	for i := range s.parts {
		if db := s.parts[i].db; db != nil {
			db.Refuse(err)
		}
	}
}

// Gone returns an error that names a file in use that was removed, replaced or truncated; nil: none was.
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
