package sqlitedb_test

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

func TestAnAppThatReadsForeverLeavesAConnection(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "x.db"), sqlitedb.Options{Readers: 3})
	release := make(chan struct{})
	var wg sync.WaitGroup
	began := make(chan struct{}, 10)
	for range 10 {
		wg.Go(func() {
			err := db.ReadFor(t.Context(), "hostile", func(*sqlite.Conn) error {
				began <- struct{}{}
				<-release
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	<-began
	<-began
	for _, app := range []string{"good", ""} {
		if err := db.ReadFor(t.Context(), app, func(*sqlite.Conn) error { return nil }); err != nil {
			t.Errorf("%q beside it: %v", app, err)
		}
	}
	close(release)
	wg.Wait()
}

func TestAppsTakeTurnsInBackgroundWork(t *testing.T) {
	db, release := held(t)
	var order []string // the writer's goroutine alone
	var wg sync.WaitGroup
	work := func(app string) {
		wg.Go(func() {
			err := db.DoBulkFor(t.Context(), app, 400, func(*sqlite.Conn) error {
				order = append(order, app)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 50 {
		work("hostile")
	}
	for db.Queued() < 50 {
	}
	work("good")
	for db.Queued() < 51 {
	}
	release()
	wg.Wait()
	if i := slices.Index(order, "good"); i > 1 {
		t.Errorf("%d slices went before that of the other app", i)
	}
}
