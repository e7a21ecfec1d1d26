package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/store"
)

// NotEmptyError says that a folder to restore into is not empty.
type NotEmptyError struct{ Dir, Found string }

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("data folder %s is not empty: it holds %s", e.Dir, e.Found)
}

// Restore unpacks an archive into a data folder that is empty or missing and that no server uses. After an error the folder is as before:
// empty, or missing.
func Restore(ctx context.Context, file, dir string) (m Manifest, err error) {
	f, err := os.Open(file)
	if err != nil {
		return m, fmt.Errorf("restore: %w", err)
	}
	defer f.Close()
	made := missing(dir)
	_, noLock := os.Lstat(filepath.Join(dir, datadir.LockFile))
	lock, err := datadir.Acquire(dir)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return m, fmt.Errorf("restore to %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.Name() != datadir.LockFile {
			return m, &NotEmptyError{dir, e.Name()}
		}
	}
	if m, err = unpack(ctx, f, dir); err == nil {
		return m, nil
	}
	err = fmt.Errorf("restore %s: %w", file, err)
	var left []string
	for _, name := range store.Traces() {
		left = append(left, filepath.Join(dir, name))
	}
	if noLock != nil { // the folder itself is locked, too, if it exists
		left = append(left, filepath.Join(dir, datadir.LockFile))
	}
	for _, name := range append(left, made...) {
		if e := os.Remove(name); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return m, err
}

// missing lists the folder and its parents, as far as they do not exist, the innermost first.
func missing(dir string) (list []string) {
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			return list
		}
		list = append(list, dir)
		dir = filepath.Dir(dir)
	}
}

func unpack(ctx context.Context, r io.Reader, dir string) (m Manifest, err error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return m, fmt.Errorf("not a backup: %w", err)
	}
	t := tar.NewReader(&cancelReader{ctx, z})
	if m, err = readManifest(t); err != nil {
		return m, err
	}
	found := 0
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return m, fmt.Errorf("the archive is damaged: %w", err)
		}
		// Only names that this program writes: an archive must not reach outside the folder.
		if !store.IsFile(h.Name) || !slices.Contains(m.Databases, h.Name) {
			return m, fmt.Errorf("the archive holds %q, which is no database of ours", h.Name)
		}
		path := filepath.Join(dir, h.Name)
		if err := unpackFile(t, path); err != nil {
			return m, fmt.Errorf("unpack %s: %w", h.Name, err)
		}
		if want := m.SHA256[h.Name]; want != "" {
			if sum, err := sumFile(path); err != nil || sum != want {
				return m, errors.Join(fmt.Errorf("the archive is damaged: %s is not what was backed up", h.Name), err)
			}
		}
		found++
	}
	if found != len(m.Databases) {
		return m, fmt.Errorf("the archive is cut short: it holds %d of %d databases", found, len(m.Databases))
	}
	if _, err := io.Copy(io.Discard, z); err != nil { // read up to the checksum at the end
		return m, fmt.Errorf("the archive is damaged: %w", err)
	}
	if err := syncDir(dir); err != nil {
		return m, err
	}
	return m, store.Seal(dir)
}

func sumFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// maxManifest limits the manifest, in bytes; it usually has a few hundred.
const maxManifest = 64 << 10

func readManifest(t *tar.Reader) (m Manifest, err error) {
	h, err := t.Next()
	if err != nil || h.Name != manifestName {
		return m, errors.New("not a backup made by godwit")
	}
	if err := json.NewDecoder(io.LimitReader(t, maxManifest)).Decode(&m); err != nil {
		return m, fmt.Errorf("not a backup made by godwit: %w", err)
	}
	if m.Format != format {
		return m, fmt.Errorf("the backup has format %d; this version reads %d", m.Format, format)
	}
	return m, nil
}

func unpackFile(r io.Reader, path string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, r); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
