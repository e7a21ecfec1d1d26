package sqlitedb_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/faultvfs"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// publish is an op with a given number of rows and a given duration of its Apply.
type publish struct {
	rows int
	work time.Duration
	done *sync.WaitGroup
}

func (p *publish) Apply(c *sqlite.Conn) error { time.Sleep(p.work); return insert("x")(c) }
func (p *publish) Done(error)                 { p.done.Done() }
func (p *publish) Size() (rows, bytes int)    { return p.rows, 100 * p.rows }

// commits runs publishes on a disk with syncs of a given duration, and counts the commits of the operations queued meanwhile.
func commits(t *testing.T, disk time.Duration, n int, p publish) (commits uint64) {
	t.Helper()
	path, vfs := filepath.Join(t.TempDir(), "x.db"), faultvfs.New(t)
	synctest.Test(t, func(t *testing.T) {
		db := open(t, path, sqlitedb.Options{VFS: vfs.Name()})
		vfs.SlowSyncs(disk)
		for range 50 { // lets the writer measure the disk
			if err := db.Do(t.Context(), insert("x")); err != nil {
				t.Fatal(err)
			}
		}
		var done sync.WaitGroup
		began := make(chan struct{})
		done.Add(n + 1)
		go func() {
			defer done.Done()
			_ = db.Do(context.Background(), func(*sqlite.Conn) error { close(began); time.Sleep(time.Second); return nil })
		}()
		<-began
		for range n {
			q := p
			q.done = &done
			db.Submit("app", &q)
		}
		commits = db.Commits()
		done.Wait()
		commits = db.Commits() - commits - 1
		vfs.SlowSyncs(0)
	})
	return commits
}

func TestACommitGrowsWhereTheDiskIsSlow(t *testing.T) {
	for name, tt := range map[string]struct {
		disk time.Duration
		n    int
		of   publish
		want uint64
	}{
		"a fast disk":               {0, 12, publish{rows: 1000}, 12},
		"a slow disk":               {20 * time.Millisecond, 12, publish{rows: 1000}, 1},
		"but not without end":       {20 * time.Millisecond, 40, publish{rows: 1000}, 3},
		"as long as the disk takes": {20 * time.Millisecond, 12, publish{rows: 1000, work: 7 * time.Millisecond}, 4},
		"as long as the disk takes, and it is fast":  {5 * time.Millisecond, 12, publish{rows: 1000, work: 7 * time.Millisecond}, 12},
		"a disk that is slower than anybody waits":   {10 * time.Second, 24, publish{rows: 1000, work: 7 * time.Millisecond}, 3},
		"what is small has never been bound by rows": {20 * time.Millisecond, 1000, publish{rows: 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := commits(t, tt.disk, tt.n, tt.of); got != tt.want {
				t.Errorf("%d publishes went into %d commits, want %d", tt.n, got, tt.want)
			}
		})
	}
}
