// Package backup copies the databases of a data folder into one archive while a server runs, and restores them into an empty folder.
package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"godwit.dev/godwit/internal/store"
)

// manifestName is the archive's first file; it lists the others.
const manifestName = "godwit-backup.json"

// Manifest describes an archive.
type Manifest struct {
	Format    int       `json:"format"`
	CreatedAt time.Time `json:"created_at"`
	Server    string    `json:"server"` // version of the program that made the backup
	Databases []string  `json:"databases"`
	Bytes     int64     `json:"bytes"` // of the databases, unpacked
	// SHA256 maps each database to its checksum in hexadecimal. Backups of former versions have none.
	SHA256 map[string]string `json:"sha256,omitempty"`
}

const format = 1

// Write copies the databases of dir into a new archive. Each copy shows one moment of its database. The file appears under its name only
// when it is whole and on disk.
func Write(ctx context.Context, dir, file, version string) (m Manifest, err error) {
	if _, err := os.Stat(file); err == nil {
		return m, fmt.Errorf("back up to %s: the file exists already", file)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(file), ".godwit-backup-*")
	if err != nil {
		return m, fmt.Errorf("back up to %s: %w", file, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if m, err = gather(ctx, dir, tmp, version); err != nil {
		return m, err
	}
	part := filepath.Join(tmp, "archive")
	if err := packNew(ctx, part, tmp, m); err != nil {
		return m, fmt.Errorf("back up to %s: %w", file, err)
	}
	return m, os.Rename(part, file)
}

// Stream writes the archive to w. It first copies the databases to the folder for temporary files, where they need as much room as in dir.
func Stream(ctx context.Context, dir string, w io.Writer, version string) (m Manifest, err error) {
	tmp, err := os.MkdirTemp("", "godwit-backup-*")
	if err != nil {
		return m, fmt.Errorf("back up: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if m, err = gather(ctx, dir, tmp, version); err != nil {
		return m, err
	}
	if err := pack(ctx, w, tmp, m); err != nil {
		return m, fmt.Errorf("back up: %w", err)
	}
	return m, nil
}

// gather copies the databases of dir into tmp.
func gather(ctx context.Context, dir, tmp, version string) (m Manifest, err error) {
	m = Manifest{Format: format, CreatedAt: time.Now().UTC().Truncate(time.Millisecond), Server: version, SHA256: map[string]string{}}
	if m.Databases, err = store.Copy(ctx, dir, tmp); err != nil {
		return m, err
	}
	for _, name := range m.Databases {
		info, err := os.Stat(filepath.Join(tmp, name))
		if err != nil {
			return m, err
		}
		m.Bytes += info.Size()
		if m.SHA256[name], err = sumFile(filepath.Join(tmp, name)); err != nil {
			return m, err
		}
	}
	if len(m.Databases) == 0 {
		return m, fmt.Errorf("back up %s: there is no database in it", dir)
	}
	return m, nil
}

// packNew makes a new file of the archive and returns when it is on disk.
func packNew(ctx context.Context, file, dir string, m Manifest) (err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // the archive contains keys' hashes and people's messages
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pack(ctx, f, dir, m); err != nil {
		return err
	}
	return f.Sync()
}

func pack(ctx context.Context, w io.Writer, dir string, m Manifest) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	head, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(head)), ModTime: m.CreatedAt}); err != nil {
		return err
	}
	if _, err := t.Write(head); err != nil {
		return err
	}
	for _, name := range m.Databases {
		if err := packFile(ctx, t, filepath.Join(dir, name), name, m.CreatedAt); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func packFile(ctx context.Context, t *tar.Writer, path, name string, at time.Time) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(), ModTime: at}); err != nil {
		return err
	}
	_, err = io.Copy(t, &cancelReader{ctx, f})
	return err
}

// cancelReader ends a long copy when its context ends.
type cancelReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *cancelReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}
