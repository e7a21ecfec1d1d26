package checkvfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkNote measures what a commit of five frames pays for its note, while another file of the same folder, or the same
// one, is written and synced all the time, as checkpoints do.
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
