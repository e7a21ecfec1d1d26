package walfile

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Repaired is the usable part of a damaged log.
type Repaired struct {
	PageSize int
	Pages    map[uint32][]byte // newest version of each page
	Size     int64             // pages of the database after the last commit; 0: there is none
	Holes    map[uint32]int    // pages whose newest version is lost, with the number of its frame
	Blind    bool              // it is unknown which page a lost frame held
	Commits  int               // in Pages
	Frames   int               // number of frames up to the last usable one
	Salts    Salts             // of the log; zero: there is none
	Copied   map[uint32]bool   // pages whose newest version is in the database; the caller, which compares the two, sets it
	Notes    []string          // what was repaired exactly

	Before *Repaired // the state before the first lost frame, if it exists: only later commits are missing from it
}

// Note describes a frame, outside the log.
type Note struct {
	Page, Pages uint32
	Sum         uint32 // CRC-32C of the page
}

// repairer holds a log while it is being repaired.
type repairer struct {
	b      []byte
	mark   Mark
	order  binary.ByteOrder
	salts  Salts
	step   int
	frames int
	notes  []string
	lost   []bool
	kept   []Note
	first  sums
}

// Repair reads a log and repairs what it can. It finds a flipped bit by trying, since each frame has a checksum. header is a copy of the
// log's header, and kept has the notes of its frames; both may be nil. Repair changes b.
func Repair(b []byte, pageSize int, m Mark, header []byte, kept []Note) *Repaired {
	d := &repairer{b: b, mark: m, kept: kept}
	if len(b) < HeaderSize || !d.header(pageSize, header) {
		return &Repaired{PageSize: pageSize}
	}
	d.chain()
	return d.result()
}

// header uses the log's header, or its copy.
func (d *repairer) header(pageSize int, kept []byte) bool {
	head := d.b[:HeaderSize]
	whole := func(h []byte) bool {
		return len(h) == HeaderSize && binary.BigEndian.Uint32(h)&^1 == magic && (sums{}).add(order(h), h[:24]) == pair(h[24:])
	}
	if !whole(head) {
		switch {
		case whole(kept) && (len(d.b) < HeaderSize+FrameHead || pair(kept[16:]) == pair(d.b[HeaderSize+8:])):
			head = kept
			d.notes = append(d.notes, "the header of the log was restored from its copy")
		case flipBack(head, func() bool { return whole(head) }):
			d.notes = append(d.notes, "a flipped bit in the header of the log was put right")
		default:
			return false
		}
	}
	d.order, d.salts, d.first = order(head), Salts(pair(head[16:])), pair(head[24:])
	if n := int(binary.BigEndian.Uint32(head[8:])); n != pageSize && pageSize != 0 {
		return false
	}
	d.step = FrameHead + int(binary.BigEndian.Uint32(head[8:]))
	d.frames = (len(d.b) - HeaderSize) / d.step
	return true
}

func (d *repairer) frame(i int) frame { return d.b[HeaderSize+i*d.step:][:d.step] }

// end returns the number of frames of this generation: those known to be on disk, and intact ones after them.
func (d *repairer) end() int {
	end := 0
	if d.mark.Salts == d.salts {
		end = int((d.mark.Bytes - HeaderSize) / int64(d.step))
	}
	for i := max(end, 1); i < d.frames; i++ {
		if f := d.frame(i); f.salts() == d.salts && f.sum(d.order, d.frame(i-1).stored()) == f.stored() {
			end = i + 1
		}
	}
	if f := d.frame(0); end == 0 && f.sum(d.order, d.first) == f.stored() && f.salts() == d.salts {
		end = 1
	}
	return min(end, d.frames)
}

// chain follows the checksums from frame to frame, and repairs frames that do not match or counts them as lost.
func (d *repairer) chain() {
	if d.frames == 0 {
		return
	}
	d.frames = d.end()
	d.lost = make([]bool, d.frames)
	prev, known := d.first, true
	for i := range d.frames {
		f := d.frame(i)
		d.lost[i] = !d.fits(i, f, prev, known)
		prev, known = f.stored(), f.salts() == d.salts && f.page() != 0
	}
}

// fits reports whether a frame is intact, or was repaired. SQLite's checksum reveals an error but not its place. So a bit is only corrected
// by the page's own checksum, if a note has it, or if no second bit could be the cause.
func (d *repairer) fits(i int, f frame, prev sums, known bool) bool {
	if known && f.sum(d.order, prev) == f.stored() && f.salts() == d.salts {
		return true
	}
	n, ok := d.noted(i)
	if !ok {
		return known && d.guess(i, f, prev)
	}
	what := "its head was put right"
	if crc32.Checksum(f.data(), table) != n.Sum {
		if !MendPage(f.data(), n.Sum) {
			d.head(f, n)
			return false
		}
		what = "a flipped bit was put right"
	}
	d.head(f, n)
	if known {
		f.setStored(f.sum(d.order, prev))
	}
	return d.note(i, what)
}

func (d *repairer) head(f frame, n Note) {
	binary.BigEndian.PutUint32(f, n.Page)
	binary.BigEndian.PutUint32(f[4:], n.Pages)
	binary.BigEndian.PutUint32(f[8:], d.salts[0])
	binary.BigEndian.PutUint32(f[12:], d.salts[1])
}

func (f frame) setStored(s sums) {
	binary.BigEndian.PutUint32(f[16:], s[0])
	binary.BigEndian.PutUint32(f[20:], s[1])
}

func (d *repairer) noted(i int) (Note, bool) {
	if d.mark.Salts != d.salts || i >= len(d.kept) || int64(HeaderSize+(i+1)*d.step) > d.mark.Bytes {
		return Note{}, false
	}
	return d.kept[i], d.kept[i].Page != 0
}

// guess searches for the one flipped bit that explains why a frame does not match.
func (d *repairer) guess(i int, f frame, prev sums) bool {
	sum, stored := f.sum(d.order, prev), f.stored()
	if sum == stored {
		d.head(f, Note{Page: f.page(), Pages: f.pages()})
		return d.note(i, "its salts were put right")
	}
	if f.salts() != d.salts {
		return false
	}
	var found []int
	for at := range f {
		for bit := 0; bit < 8 && (at < 8 || at >= 16); bit++ {
			f[at] ^= 1 << bit
			if f.sum(d.order, prev) == f.stored() {
				found = append(found, at*8+bit)
			}
			f[at] ^= 1 << bit
		}
	}
	if len(found) != 1 {
		return false
	}
	f[found[0]/8] ^= 1 << (found[0] % 8)
	return d.note(i, "a flipped bit was put right")
}

func (d *repairer) note(i int, what string) bool {
	d.notes = append(d.notes, fmt.Sprintf("frame %d of the log: %s", i+1, what))
	return true
}

// flipBack flips each bit of b in turn until whole returns true.
func flipBack(b []byte, whole func() bool) bool {
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if whole() {
				return true
			}
			b[i] ^= 1 << bit
		}
	}
	return false
}

// Sum returns a page's checksum as notes have it.
func Sum(b []byte) uint32 { return crc32.Checksum(b, table) }

// MendPage corrects one flipped bit of a page, by its CRC-32C.
func MendPage(b []byte, sum uint32) bool {
	diff := crc32.Checksum(b, table) ^ sum
	return diff == 0 || flipBackCRC(b, diff)
}

// flipBackCRC finds the flipped bit by its effect on the CRC, from the last byte to the first: a bit's effect is that of the same bit one
// byte later, shifted by one byte.
func flipBackCRC(b []byte, diff uint32) bool {
	var of [8]uint32
	for bit := range of {
		of[bit] = table[1<<bit]
	}
	for i := len(b) - 1; i >= 0; i-- {
		for bit := range of {
			if of[bit] == diff {
				b[i] ^= 1 << bit
				return true
			}
			of[bit] = table[byte(of[bit])] ^ of[bit]>>8
		}
	}
	return false
}

// result collects the newest version of each page.
func (d *repairer) result() *Repaired {
	end := d.lastCommit(d.frames)
	m := d.upTo(end)
	m.Salts = d.salts
	first := d.frames
	for i := len(d.lost) - 1; i >= 0; i-- {
		if d.lost[i] {
			first = i
		}
	}
	if len(m.Holes) > 0 || m.Blind {
		m.Before = d.upTo(d.lastCommit(first))
	}
	m.Notes = d.notes
	return m
}

// lastCommit returns the number of frames up to the last commit that ends before frame end.
func (d *repairer) lastCommit(end int) int {
	for i := min(end, d.frames); i > 0; i-- {
		if f := d.frame(i - 1); f.commit() && f.salts() == d.salts {
			return i
		}
	}
	return 0
}

func (d *repairer) upTo(end int) *Repaired {
	m := &Repaired{PageSize: d.step - FrameHead, Frames: end, Pages: make(map[uint32][]byte), Holes: make(map[uint32]int)}
	for i := range end {
		f := d.frame(i)
		switch {
		case !d.lost[i]:
			m.Pages[f.page()] = f.data()
			delete(m.Holes, f.page())
		case f.salts() == d.salts && f.page() != 0:
			delete(m.Pages, f.page())
			m.Holes[f.page()] = i + 1
		default:
			m.Blind = true
		}
		if f.commit() && f.salts() == d.salts {
			m.Commits++
			m.Size = int64(f.pages())
		}
	}
	return m
}
