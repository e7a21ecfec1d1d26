package recipient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// Forgetter is a log that contains names of recipients: events, or the audit log.
type Forgetter interface {
	ForgetRecipient(ctx context.Context, app, recipient string) error
}

// EraserConfig holds what an Eraser needs.
type EraserConfig struct {
	File   string        // file with the remaining work; it exists only while work remains
	After  time.Duration // time from an erasure until files are overwritten, so that many erasures share one overwrite
	Forget []Forgetter
	// Scrub overwrites deleted data in files. It returns the SQL for the parts of a database that it could not overwrite.
	Scrub func(context.Context) (left string, err error)
	Log   *slog.Logger
}

// Eraser removes erased recipients from logs and overwrites deleted data in files. It cleans logs at once, and again before files are
// overwritten, since the events of the erasure itself are logged later. After a restart it continues.
type Eraser struct {
	cfg  EraserConfig
	wake chan struct{}

	mu      sync.Mutex
	pending []erased
}

// erased is an erased recipient; without a name, other data of the app was deleted.
type erased struct {
	App  string `json:"app"`
	Name string `json:"name,omitempty"`
}

// NewEraser loads the remaining work of an earlier process.
func NewEraser(cfg EraserConfig) (*Eraser, error) {
	e := &Eraser{cfg: cfg, wake: make(chan struct{}, 1)}
	b, err := os.ReadFile(cfg.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e, nil
	case err != nil:
		return nil, fmt.Errorf("read what is still to be erased: %w", err)
	}
	if err := json.Unmarshal(b, &e.pending); err != nil {
		return nil, fmt.Errorf("read what is still to be erased: %s: %w", cfg.File, err)
	}
	e.wake <- struct{}{}
	return e, nil
}

// Erased removes the traces of an erased recipient.
func (e *Eraser) Erased(ctx context.Context, app, name string) error {
	if err := e.add(erased{app, name}); err != nil {
		return err
	}
	return e.forget(context.WithoutCancel(ctx), erased{app, name})
}

// Deleted records that data of an app was deleted, which must be overwritten in files.
func (e *Eraser) Deleted(app string) {
	if err := e.add(erased{App: app}); err != nil {
		e.cfg.Log.Error("what was deleted will not be overwritten", "app", app, "error", err)
	}
}

// Run does the pending work until the context ends.
func (e *Eraser) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wake:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(e.cfg.After):
		}
		if err := e.work(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Log.ErrorContext(ctx, "erased data could not be overwritten; trying again", "error", err, "after", e.cfg.After)
			e.poke()
		}
	}
}

// work does the work that is pending now.
func (e *Eraser) work(ctx context.Context) error {
	e.mu.Lock()
	all := slices.Clone(e.pending)
	e.mu.Unlock()
	began := time.Now()
	for _, one := range all {
		if err := e.forget(ctx, one); err != nil {
			return err
		}
	}
	left, err := e.cfg.Scrub(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending = e.pending[len(all):] // others have come behind them
	if err := e.save(); err != nil {
		return err
	}
	if left != "" {
		e.cfg.Log.WarnContext(ctx, "erased rows are deleted, but large tables of the database keep old bytes until they use the room again; to remove them, run this SQL when little is going on", "sql", left)
		return nil
	}
	e.cfg.Log.InfoContext(ctx, "erased data is overwritten in all files", "erasures", len(all), "took", time.Since(began).Round(time.Millisecond).String())
	return nil
}

func (e *Eraser) forget(ctx context.Context, one erased) error {
	if one.Name == "" {
		return nil
	}
	for _, f := range e.cfg.Forget {
		if err := f.ForgetRecipient(ctx, one.App, one.Name); err != nil {
			return err
		}
	}
	return nil
}

func (e *Eraser) add(one erased) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one.Name == "" && slices.Contains(e.pending, one) {
		return nil // one pass does for both
	}
	e.pending = append(e.pending, one)
	if err := e.save(); err != nil {
		e.pending = e.pending[:len(e.pending)-1]
		return err
	}
	e.poke()
	return nil
}

func (e *Eraser) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// save stores the pending work, or removes the file if there is none.
func (e *Eraser) save() error {
	if len(e.pending) == 0 {
		if err := os.Remove(e.cfg.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("note what is erased: %w", err)
		}
		return nil
	}
	b, err := json.Marshal(e.pending)
	if err != nil {
		return fmt.Errorf("note what is erased: %w", err)
	}
	next := e.cfg.File + ".new"
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return fmt.Errorf("note what is erased: %w", err)
	}
	if err := os.Rename(next, e.cfg.File); err != nil {
		return fmt.Errorf("note what is erased: %w", err)
	}
	return nil
}
