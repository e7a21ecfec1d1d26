package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"godwit.dev/godwit/internal/store/move"
	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// ManifestFile lists the files that make up the store. It is written first and removed last: a file that it names counts
// as damage if it is missing, and so do databases of a store without a manifest.
const ManifestFile = "store.json"

const manifestFormat = 1

type manifest struct {
	Format    int      `json:"format"`
	ID        string   `json:"id"` // each database has it, too
	Files     []string `json:"files"`
	Checksums bool     `json:"checksums"` // beside each of them
	// From is the database that the folder was filled from, and its last use by a server; empty: none.
	From string `json:"from,omitempty"`

	id checkvfs.ID
}

// MissingError says that a file of the store is missing.
type MissingError struct{ Path, Why string }

func (e *MissingError) Error() string { return e.Path + " is missing: " + e.Why }

// BrokenManifestError says that the manifest cannot be read.
type BrokenManifestError struct {
	Path string
	Err  error
}

func (e *BrokenManifestError) Error() string { return e.Path + " is damaged: " + e.Err.Error() }
func (e *BrokenManifestError) Unwrap() error { return e.Err }

// openManifest reads the manifest of a folder and checks that every file exists. In a folder without a store, or with one of a former
// version, it creates the manifest.
func openManifest(data string) (*manifest, error) {
	if err := move.FolderFinished(data); err != nil {
		return nil, err
	}
	return openAnyManifest(data)
}

// openAnyManifest does so in a folder that is being filled, too.
func openAnyManifest(data string) (*manifest, error) {
	m, err := readAnyManifest(data)
	if errors.Is(err, fs.ErrNotExist) {
		if m, err = newManifest(data); errors.Is(err, fs.ErrExist) {
			m, err = readAnyManifest(data) // another process was faster
		}
	}
	if err != nil {
		return nil, err
	}
	for _, name := range m.Files {
		if _, err := os.Stat(filepath.Join(data, name)); errors.Is(err, fs.ErrNotExist) {
			return nil, m.missing(data, name)
		}
	}
	return m, nil
}

func (m *manifest) missing(data, name string) error {
	return &MissingError{filepath.Join(data, name), "the store " + m.ID + " has it, as " + ManifestFile + " says"}
}

func readManifest(data string) (*manifest, error) {
	if err := move.FolderFinished(data); err != nil {
		return nil, err
	}
	return readAnyManifest(data)
}

func readAnyManifest(data string) (*manifest, error) {
	path := filepath.Join(data, ManifestFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	if err = json.Unmarshal(b, m); err == nil && m.Format != manifestFormat {
		err = fmt.Errorf("it has format %d; this version knows %d", m.Format, manifestFormat)
	}
	if err == nil {
		var id []byte
		if id, err = hex.DecodeString(m.ID); err == nil && len(id) != len(m.id) {
			err = fmt.Errorf("%q is no id of a store", m.ID)
		}
		copy(m.id[:], id)
	}
	for _, name := range m.Files {
		if !IsFile(name) {
			err = errors.Join(err, fmt.Errorf("it names %q, which is no file of a store", name))
		}
	}
	if err != nil {
		return nil, &BrokenManifestError{path, err}
	}
	return m, nil
}

// newManifest creates the missing manifest, unless databases show that there was one.
func newManifest(data string) (*manifest, error) {
	path := filepath.Join(data, ManifestFile)
	for _, name := range filesIn(data, &manifest{}) {
		if id := checkvfs.StoreOf(filepath.Join(data, name)); id != (checkvfs.ID{}) {
			return nil, &MissingError{path, fmt.Sprintf("%s belongs to the store %s", name, id)}
		}
	}
	m := &manifest{Format: manifestFormat, Files: []string{}, Checksums: true}
	if _, err := rand.Read(m.id[:]); err != nil {
		return nil, err
	}
	m.ID = m.id.String()
	return m, m.write(data, os.Link)
}

// add records files in the manifest, with checksums.
func (m *manifest) add(data string, names ...string) error {
	was := len(m.Files)
	for _, name := range names {
		if !slices.Contains(m.Files, name) {
			m.Files = append(m.Files, name)
		}
	}
	if len(m.Files) == was {
		return nil
	}
	return m.write(data, os.Rename)
}

// write replaces the manifest in one step, and syncs it to disk.
func (m *manifest) write(data string, place func(from, to string) error) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(data, "."+ManifestFile+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", ManifestFile, err)
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = place(f.Name(), filepath.Join(data, ManifestFile))
	}
	if rerr := os.Remove(f.Name()); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", ManifestFile, err)
	}
	return syncFolder(data)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// guard returns the manifest's data about a file, for its database.
func (m *manifest) guard(name string, damaged func(error)) sqlitedb.Guard {
	return sqlitedb.Guard{Store: m.id, Checked: m.Checksums && slices.Contains(m.Files, name), Damaged: damaged}
}

// gone returns an error if the manifest in a folder is no longer m.
func (m *manifest) gone(data string) error {
	now, err := readManifest(data)
	if errors.Is(err, fs.ErrNotExist) {
		return &MissingError{filepath.Join(data, ManifestFile), "it was removed while it was in use"}
	}
	if err == nil && now.ID != m.ID {
		err = &BrokenManifestError{filepath.Join(data, ManifestFile), fmt.Errorf("it is that of another store (%s)", now.ID)}
	}
	return err
}
