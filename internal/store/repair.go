package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/repair"
)

// Finding describes one piece of damage.
type Finding struct {
	File   string `json:"file"`
	Damage string `json:"damage"`
}

// Verify reads everything in a data folder, also beside a server that uses it, and reports what is damaged, and which counts differ
// from what they count. It must not be called in the server's process. It reads at most pace bytes a second; 0: as fast as it can, since no server uses it. progress, if not nil, is called
// now and then with how much of a file was read.
func Verify(ctx context.Context, data string, pace int64, progress func(file string, done, total int64)) (found []Finding, err error) {
	m, err := readManifest(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m = &manifest{}
		if belongs(data) != (checkvfs.ID{}) {
			found = append(found, Finding{ManifestFile, "it is missing"})
		}
	case err != nil:
		m = &manifest{}
		found = append(found, Finding{ManifestFile, err.Error()})
	}
	for _, name := range filesIn(data, m) {
		path := filepath.Join(data, name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !slices.Contains(m.Files, name) {
			continue
		}
		if !slices.Contains(m.Files, name) && !exists(path+checkvfs.Suffix) {
			continue // a database of an earlier version gets its checksums when it is opened
		}
		if id := checkvfs.StoreOf(path); m.id != (checkvfs.ID{}) && id != (checkvfs.ID{}) && id != m.id {
			found = append(found, Finding{name, "it belongs to another store, " + id.String()})
			continue
		}
		d, err := checkvfs.Verify(ctx, path, pace, func(done, total int64) {
			if progress != nil {
				progress(name, done, total)
			}
		})
		if err != nil {
			return found, fmt.Errorf("verify %s: %w", name, err)
		}
		for _, e := range d.Errors {
			found = append(found, Finding{name, e.Error()})
		}
		if len(d.Errors) == 0 { // else what it has can hardly be read
			differing, err := verifyCounts(ctx, data, name, pace == 0)
			if err != nil {
				return found, fmt.Errorf("verify %s: %w", name, err)
			}
			found = append(found, differing...)
		}
	}
	return found, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// belongs returns the id of the store to which most databases in a folder belong; zero: none.
func belongs(data string) (most checkvfs.ID) {
	count := map[checkvfs.ID]int{}
	for _, name := range filesIn(data, &manifest{}) {
		if id := checkvfs.StoreOf(filepath.Join(data, name)); id != (checkvfs.ID{}) {
			if count[id]++; count[id] > count[most] {
				most = id
			}
		}
	}
	return most
}

// Repaired is the result of Repair.
type Repaired struct {
	Copies string          `json:"copies,omitempty"` // folder with copies of the damaged files
	Files  []repair.Report `json:"files"`
}

// Lossless reports whether the repair lost nothing.
func (r *Repaired) Lossless() bool {
	for i := range r.Files {
		if !r.Files[i].Lossless() {
			return false
		}
	}
	return true
}

// Repair mends a data folder that no server uses, with the tables of these modules. It copies files before it changes them.
func Repair(ctx context.Context, data string, tables ...Tables) (r Repaired, err error) {
	copies := filepath.Join(data, "damaged-"+time.Now().UTC().Format("20060102T150405.000"))
	m, err := readManifest(data)
	if err != nil {
		var broken *BrokenManifestError
		if !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &broken) {
			return r, err
		}
		if err := keepManifest(data, copies); err != nil {
			return r, err
		}
		m = &manifest{Format: manifestFormat, Checksums: true, id: belongs(data)}
		if m.id == (checkvfs.ID{}) {
			if _, err := rand.Read(m.id[:]); err != nil {
				return r, err
			}
		}
		m.ID = m.id.String()
	}
	blank, err := os.MkdirTemp(data, ".blank-*")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(blank)) }()
	empty, err := Open(ctx, Config{Data: blank, MinFree: 1, Ballast: 1, Tables: tables})
	if err == nil {
		err = empty.Close()
	}
	if err != nil {
		return r, fmt.Errorf("make empty databases: %w", err)
	}
	for _, name := range filesIn(data, m) {
		path := filepath.Join(data, name)
		if !exists(filepath.Join(blank, name)) {
			continue // of a module that this program does not have
		}
		if !exists(path) && !exists(path+checkvfs.Suffix) && !slices.Contains(m.Files, name) {
			continue
		}
		j := repair.Job{Path: path, Copy: copies, Store: m.id, Blank: filepath.Join(blank, name), Kind: kinds[name]}
		done, err := j.Run(ctx)
		if err != nil {
			return r, fmt.Errorf("repair %s: %w", name, err)
		}
		r.Files = append(r.Files, done)
		if !slices.Contains(m.Files, name) {
			m.Files = append(m.Files, name)
		}
	}
	if exists(copies) {
		r.Copies = copies
	}
	return r, m.write(data, os.Rename)
}

func keepManifest(data, copies string) error {
	b, err := os.ReadFile(filepath.Join(data, ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.MkdirAll(copies, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(copies, ManifestFile), b, 0o600)
	}
	return err
}

// Seal writes the checksums and the manifest of databases that were just put into a folder.
func Seal(data string) error {
	m, err := openManifest(data)
	if err != nil {
		return err
	}
	var there []string
	for _, name := range filesIn(data, m) {
		if path := filepath.Join(data, name); exists(path) {
			if err := repair.Seal(path, m.id); err != nil {
				return fmt.Errorf("make checksums of %s: %w", name, err)
			}
			there = append(there, name)
		}
	}
	return m.add(data, there...)
}
