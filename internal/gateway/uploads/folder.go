package uploads

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/engine/disk"
	"godwit.dev/godwit/internal/server/problem"
)

const (
	keyName      = ".key"
	keyBytes     = 32
	partPrefix   = ".part-" // of bodies that are being written
	checkEvery   = 16 << 20 // bytes after which the free space is looked at again
	downloadTime = 30 * time.Minute
)

// Folder keeps bodies as files, one folder an app. Nodes that share the folder share the key in it, and serve each other's bodies.
type Folder struct {
	cfg  FolderConfig
	used atomic.Int64 // bytes of bodies, also those being written

	mu  sync.Mutex
	key []byte // nil: it is not read yet
}

// FolderConfig holds the settings of a Folder.
type FolderConfig struct {
	Dir     string
	Keep    time.Duration
	Most    int64  // most bytes of all bodies together
	MinFree int64  // bytes that stay free on the disk
	Base    string // URL of the server for workers; empty: URLs begin with the path
}

var _ Place = (*Folder)(nil)

// NewFolder makes a Folder. The folder and its key are made with the first upload.
func NewFolder(cfg FolderConfig) *Folder { return &Folder{cfg: cfg} }

// secret returns the key that signs references. It makes the folder and the key if they are missing.
func (f *Folder) secret() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.key != nil {
		return f.key, nil
	}
	if err := os.MkdirAll(f.cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for uploads: %w", err)
	}
	key, err := signingKey(f.cfg.Dir)
	f.key = key
	return key, err
}

// signingKey reads the key of a folder, or makes it. A key is complete when it appears, since other nodes may read it at once.
func signingKey(dir string) ([]byte, error) {
	name := filepath.Join(dir, keyName)
	if b, err := os.ReadFile(name); !errors.Is(err, fs.ErrNotExist) {
		if err == nil && len(b) != keyBytes {
			err = fmt.Errorf("it has %d bytes instead of %d: remove it, and references handed out before become invalid", len(b), keyBytes)
		}
		if err != nil {
			return nil, fmt.Errorf("read the key of uploads %s: %w", name, err)
		}
		return b, nil
	}
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	part := filepath.Join(dir, partPrefix+rand.Text())
	defer os.Remove(part)
	err := os.WriteFile(part, key, 0o600)
	if err == nil {
		err = os.Link(part, name)
	}
	if errors.Is(err, fs.ErrExist) { // another node was quicker
		return os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("make the key of uploads: %w", err)
	}
	return key, nil
}

// Put implements Place.
func (f *Folder) Put(_ context.Context, app, id string, size int64, body io.Reader) (err error) {
	if size > 0 && f.used.Load()+size > f.cfg.Most {
		return full()
	}
	dir := filepath.Join(f.cfg.Dir, app)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep an upload: %w", err)
	}
	part := filepath.Join(dir, partPrefix+id)
	out, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("keep an upload: %w", err)
	}
	w := &counted{to: out, folder: f}
	defer func() {
		if err != nil {
			_ = os.Remove(part) // what stays is swept
			f.used.Add(-w.n)
		}
	}()
	if _, err = io.Copy(w, body); err != nil {
		_ = out.Close()
		return err
	}
	if err = out.Close(); err == nil {
		err = os.Rename(part, filepath.Join(dir, id))
	}
	if err != nil {
		return fmt.Errorf("keep an upload: %w", err)
	}
	return nil
}

// counted writes a body while there is room for it.
type counted struct {
	to      io.Writer
	folder  *Folder
	n, look int64
}

func (w *counted) Write(p []byte) (int, error) {
	f := w.folder
	w.n += int64(len(p))
	if f.used.Add(int64(len(p))) > f.cfg.Most {
		return 0, full()
	}
	if w.n >= w.look {
		if free, err := disk.Free(f.cfg.Dir); err == nil && free < f.cfg.MinFree {
			return 0, full()
		}
		w.look = w.n + checkEvery
	}
	n, err := w.to.Write(p)
	if err != nil {
		return n, fmt.Errorf("keep an upload: %w", err)
	}
	return n, nil
}

func full() error {
	return problem.NoSpace.With("there is no room for another upload now: uploads_space, or the disk; retry later")
}

// Delete implements Place.
func (f *Folder) Delete(_ context.Context, app, id string) error {
	return f.remove(filepath.Join(f.cfg.Dir, app, id))
}

func (f *Folder) remove(name string) error {
	st, err := os.Stat(name)
	if err == nil {
		err = os.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) { // another node of the folder has removed it
		return nil
	}
	if err == nil {
		f.used.Add(-st.Size())
	}
	return err
}

// Sweep implements Place. It also counts the bytes of the bodies that stay, since other nodes may write into the folder.
func (f *Folder) Sweep(ctx context.Context, now time.Time) error {
	var sum int64
	err := filepath.WalkDir(f.cfg.Dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil || d.IsDir() || d.Name() == keyName {
			return ignoreMissing(err)
		}
		st, err := d.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		if now.Sub(st.ModTime()) > f.cfg.Keep {
			return ignoreMissing(os.Remove(name))
		}
		sum += st.Size()
		return nil
	})
	if err != nil {
		return fmt.Errorf("look through the folder of uploads: %w", err)
	}
	f.used.Store(sum)
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// EraseApp implements Place.
func (f *Folder) EraseApp(ctx context.Context, app string) error {
	if err := os.RemoveAll(filepath.Join(f.cfg.Dir, app)); err != nil {
		return err
	}
	return f.Sweep(ctx, time.Time{}) // counts what is left
}
