package checkvfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// BenchmarkNote measures the cost of the note for a commit of five frames, while another file of the same folder, or the same file, is
// written and synced all the time, as checkpoints do.
func BenchmarkNote(b *testing.B) {
	dir := b.TempDir()
	mapped, plain, synced := made(b, dir, "mapped"), made(b, dir, "plain"), made(b, dir, "synced")
	n := note{path: mapped.Name(), file: mapped}
	var err error
	if n.mem, err = unix.Mmap(int(mapped.Fd()), 0, noteFile, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.close() })
	write := func(f *os.File) func([]byte, int) error {
		return func(p []byte, at int) error {
			_, err := f.WriteAt(p, int64(at))
			return err
		}
	}
	for name, put := range map[string]func([]byte, int) error{"mapped": n.put, "written": write(plain), "written where it is synced": write(synced)} {
		b.Run(name, func(b *testing.B) {
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				syncAgainAndAgain(b, synced, stop)
			}()
			mark, notes := make([]byte, markSize), make([]byte, 5*frameNote)
			for i := 0; b.Loop(); i++ {
				if err := put(notes, notesAt+i*len(notes)%(noteFile/2)); err != nil {
					b.Fatal(err)
				}
				if err := put(mark, liveAt); err != nil {
					b.Fatal(err)
				}
			}
			close(stop)
			<-stopped
		})
	}
}

func made(b *testing.B, dir, name string) *os.File {
	b.Helper()
	f, err := os.Create(filepath.Join(dir, name))
	if err == nil {
		_, err = f.Write(make([]byte, noteFile))
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	return f
}

func syncAgainAndAgain(b *testing.B, f *os.File, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		_, err := f.WriteAt(make([]byte, 4096), noteFile/2)
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			b.Error(err)
			return
		}
	}
}

// BenchmarkPage measures the cost of the checksum of a 4 KB page that is read from the database, read from the log, or written to the log.
func BenchmarkPage(b *testing.B) {
	const pages, size = 16, 4096 // few pages, so that they are in the processor's cache, like a page just read or about to be written
	path := filepath.Join(b.TempDir(), "a.db")
	image := make([]byte, pages*size)
	copy(image, "SQLite format 3\x00\x10\x00")
	for i := range pages {
		image[i*size+100] = byte(i) | 1
	}
	if err := os.WriteFile(path, image, 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := Open(path, Options{Damaged: func(err error) { b.Error(err) }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	page := func(i int) []byte { return image[i%pages*size:][:size] }
	frame := func(i int) int64 { return logHeader + walfile.FrameHead + int64(i%pages)*(size+walfile.FrameHead) }
	for i := range pages {
		f.wroteLog(page(i), frame(i))
	}
	b.Run("read", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			f.checkPage(page(i), int64(i%pages)*size, false)
		}
	})
	b.Run("read from the log", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			f.checkFrame(page(i), frame(i))
		}
	})
	b.Run("written to the log", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if f.wroteLog(page(i), frame(i)); i%8 == 7 {
				f.notes = f.notes[:0] // as a commit does
			}
		}
	})
}
