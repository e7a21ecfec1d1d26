package walfile_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"testing"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// notesOf returns the notes of an undamaged log.
func notesOf(b []byte) (notes []walfile.Note) {
	for at := walfile.HeaderSize; at+walfile.FrameHead+4096 <= len(b); at += walfile.FrameHead + 4096 {
		notes = append(notes, walfile.Note{
			Page: binary.BigEndian.Uint32(b[at:]), Pages: binary.BigEndian.Uint32(b[at+4:]),
			Sum: crc32.Checksum(b[at+walfile.FrameHead:][:4096], crc32.MakeTable(crc32.Castagnoli)),
		})
	}
	return notes
}

func same(a, b map[uint32][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for page, data := range a {
		if !bytes.Equal(data, b[page]) {
			return false
		}
	}
	return true
}

func TestAFlippedBitOfALogIsPutRight(t *testing.T) {
	path := crashed(t, 30)
	whole, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	mark, notes, header := markOf(read(t, path)), notesOf(whole), bytes.Clone(whole[:walfile.HeaderSize])
	want := walfile.Repair(bytes.Clone(whole), 4096, mark, header, notes)
	if want.Commits != 31 || len(want.Notes) > 0 || len(want.Holes) > 0 || want.Blind {
		t.Fatalf("a whole log becomes %d commits, %v, %v", want.Commits, want.Notes, want.Holes)
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	for range thorough.Rounds(30, 200) {
		at, bit := rnd.IntN(len(whole)), rnd.IntN(8)
		b := bytes.Clone(whole)
		b[at] ^= 1 << bit
		got := walfile.Repair(b, 4096, mark, header, notes)
		if !same(got.Pages, want.Pages) || got.Commits != want.Commits || got.Size != want.Size || len(got.Holes) > 0 {
			t.Errorf("a flip at %d: %d of %d pages, %d commits, holes %v, %v", at, len(got.Pages), len(want.Pages), got.Commits, got.Holes, got.Notes)
		}
	}
}

// Without notes several bits may explain an error: then the frame counts as lost and is not changed.
func TestABitThatMayBeAnotherOneIsNotPutRight(t *testing.T) {
	const pageSize = 1024 // the search takes time by the square of it
	path := crashedWith(t, 10, pageSize)
	whole, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	mark := markOf(read(t, path))
	want := walfile.Repair(bytes.Clone(whole), pageSize, mark, nil, nil)
	if want.Commits != 11 {
		t.Fatalf("a whole log becomes %d commits", want.Commits)
	}
	rnd := rand.New(rand.NewPCG(8, 8))
	lost := 0
	for range 12 {
		b := bytes.Clone(whole)
		// Flips the highest bit of a word in a page.
		b[walfile.HeaderSize+rnd.IntN(10)*(walfile.FrameHead+pageSize)+walfile.FrameHead+rnd.IntN(pageSize/4)*4+3] ^= 1 << 7
		got := walfile.Repair(b, pageSize, mark, nil, nil)
		if len(got.Holes) > 0 || got.Blind {
			lost++
		} else if !same(got.Pages, want.Pages) {
			t.Error("a page is altered")
		}
	}
	if lost == 0 {
		t.Error("every bit was found: the test shows nothing")
	}
}

func TestAZeroedStretchOfALogIsAHole(t *testing.T) {
	path := crashed(t, 30)
	whole, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	mark, notes := markOf(read(t, path)), notesOf(whole)
	want := walfile.Repair(bytes.Clone(whole), 4096, mark, nil, notes)
	for at := 4096; at+4096 < len(whole); at += 4096 {
		b := bytes.Clone(whole)
		clear(b[at : at+4096])
		got := walfile.Repair(b, 4096, mark, nil, notes)
		if got.Blind || got.Commits != want.Commits || len(got.Pages)+len(got.Holes) != len(want.Pages) {
			t.Errorf("zeroes at %d: blind %t, %d commits, %d pages and %d holes of %d", at, got.Blind, got.Commits, len(got.Pages), len(got.Holes), len(want.Pages))
		}
		for page, data := range got.Pages {
			if !bytes.Equal(data, want.Pages[page]) {
				t.Errorf("zeroes at %d: page %d is altered", at, page)
			}
		}
		if len(got.Holes) > 0 && got.Before == nil {
			t.Errorf("zeroes at %d: nothing is known of the state before", at)
		}
	}
}

func TestAFlippedBitOfAPageIsPutRight(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	page := make([]byte, 4096)
	for i := range page {
		page[i] = byte(rnd.Uint32())
	}
	sum := crc32.Checksum(page, crc32.MakeTable(crc32.Castagnoli))
	for range thorough.Rounds(60, 500) {
		b := bytes.Clone(page)
		b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		if !walfile.MendPage(b, sum) || !bytes.Equal(b, page) {
			t.Fatal("it is not put right")
		}
		b[0] ^= 1
		b[1] ^= 1
		if walfile.MendPage(b, sum) {
			t.Fatal("two bits are taken for one")
		}
	}
}
