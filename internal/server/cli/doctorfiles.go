package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/store"
)

// verifyPace limits the bytes read a second beside a running server, so that the server keeps enough of the disk and the cores: a gigabyte
// takes ten seconds.
const verifyPace = 100 << 20

// verify reads everything that is stored, even while a server runs.
func (p *program) verify(ctx context.Context, c *config.Config) error {
	if _, err := os.Stat(c.Data); errors.Is(err, os.ErrNotExist) {
		return withHint(fmt.Errorf("there is no data folder %s", c.Data), "name the server's data folder with --data")
	}
	shown, pace := false, int64(0)
	if _, held := datadir.Held(c.Data); held {
		pace = verifyPace
	}
	found, err := store.Verify(ctx, c.Data, pace, func(file string, done, total int64) {
		if p.json {
			return
		}
		shown = true
		fmt.Fprintf(p.stderr, "\r%s: %s of %s   ", file, size(done), size(total))
	})
	if shown {
		fmt.Fprintln(p.stderr)
	}
	if err != nil {
		return err
	}
	if err := p.printFound(found); err != nil {
		return err
	}
	if len(found) > 0 {
		return withHint(fmt.Errorf("stored data in %s is damaged in %s", c.Data, places(len(found))),
			"stop the server, then godwit doctor --repair --data %s saves what can be saved, keeping copies; or restore a backup into a new folder", c.Data)
	}
	if p.json {
		return nil
	}
	_, err = fmt.Fprintf(p.stdout, "%s everything in %s is as it was written\n", p.paint(green, "ok  "), c.Data)
	return err
}

func (p *program) printFound(found []store.Finding) (err error) {
	for _, f := range found {
		if p.json {
			err = p.line(f)
		} else {
			_, err = fmt.Fprintf(p.stdout, "%s %s: %s\n", p.paint(red, "bad "), f.File, f.Damage)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyPostgres compares counts in a database with what they count, even while servers run.
func (p *program) verifyPostgres(ctx context.Context, c *config.Config) error {
	found, err := store.VerifyPostgres(ctx, c.Postgres)
	if err != nil {
		return withHint(fmt.Errorf("counts in PostgreSQL could not be compared with what they count: %w", err), "godwit doctor without --verify tells whether the database can be reached and used")
	}
	if err := p.printFound(found); err != nil {
		return err
	}
	if len(found) > 0 {
		return withHint(fmt.Errorf("counts in PostgreSQL differ from what they count in %s", places(len(found))),
			"rows were deleted or not restored: restore the database as a whole; pg_amcheck looks for damage of its files")
	}
	if p.json {
		return nil
	}
	_, err = fmt.Fprintf(p.stdout, "%s all counts in PostgreSQL agree with what they count; pg_amcheck looks for damage of its files\n", p.paint(green, "ok  "))
	return err
}

// repair repairs the stores; no server may be running.
func (p *program) repair(ctx context.Context, c *config.Config) (err error) {
	if _, err := os.Stat(c.Data); errors.Is(err, os.ErrNotExist) {
		return withHint(fmt.Errorf("there is no data folder %s", c.Data), "name the server's data folder with --data")
	}
	lock, err := datadir.Acquire(c.Data)
	var inUse *datadir.InUseError
	if errors.As(err, &inUse) {
		return withHint(err, "stop the server before repairing what it uses")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	r, err := store.Repair(ctx, c.Data, app.Tables(p.modules)...)
	if err != nil {
		return err
	}
	if p.json {
		return p.line(r)
	}
	for _, f := range r.Files {
		if _, err := fmt.Fprintf(p.stdout, "%-12s %s\n", f.File, f.State); err != nil {
			return err
		}
		for _, m := range f.Repaired {
			fmt.Fprintf(p.stdout, "  mended: %s\n", clean(m))
		}
		for _, l := range f.Losses() {
			fmt.Fprintf(p.stdout, "  %s: %s\n", p.paint(red, "lost"), clean(l))
		}
	}
	if r.Copies != "" {
		fmt.Fprintf(p.stdout, "what was there before is in %s\n", r.Copies)
	}
	if r.Lossless() {
		_, err = fmt.Fprintf(p.stdout, "%s nothing is lost; the server can be started\n", p.paint(green, "ok  "))
	} else {
		_, err = fmt.Fprintf(p.stdout, "%s the server can be started without what is lost; a backup may have it\n", p.paint(red, "note"))
	}
	return err
}

func places(n int) string {
	if n == 1 {
		return "one place"
	}
	return fmt.Sprintf("%d places", n)
}
