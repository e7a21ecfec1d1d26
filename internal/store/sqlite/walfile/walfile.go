// Package walfile reads the write-ahead log beside a SQLite file (https://www.sqlite.org/fileformat2.html#walformat) and finds losses that
// SQLite's own recovery ignores: it stops at the first frame that is not intact, and silently drops every commit after it.
package walfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// Sizes of the format, in bytes.
const (
	HeaderSize = 32
	FrameHead  = 24 // before each page
	MinPage    = 512
	MaxPage    = 65536
)

const magic = 0x377f0682 // the lowest bit: checksums are of big-endian words

// Salts identify a generation of the log. At each restart the first grows by one and the second is random.
type Salts [2]uint32

// Older reports whether s is of a generation before o.
func (s Salts) Older(o Salts) bool { return int32(s[0]-o[0]) < 0 }

// Mark is the part of a log that was synced to disk. It is stored beside the log after each sync.
type Mark struct {
	Salts   Salts
	Bytes   int64 // from the log's beginning; 0: there is no log
	Copied  int64 // bytes of these that were copied into the database file
	Commits int64 // syncs since the log began
	Tally   Tally // row counts as of the last of these commits, or of the last opening of the database
}

// Tally holds the owner's counts of rows in the database, so that a repair can report how many are missing. Zero: nothing is counted.
type Tally struct {
	Stored int64 // ever, kept or not
	Open   int64 // number of these that must still exist
}

// Frame is a frame of a complete commit.
type Frame struct {
	Page uint32 // number, from 1
	Sum  uint32 // CRC-32C of the page
}

// Log is the result of reading a log.
type Log struct {
	Salts    Salts
	PageSize int
	Frames   []Frame // of whole commits
	Good     int64   // bytes up to the end of the last intact commit
	Size     int64   // bytes of the file
	Commits  int     // whole ones
	Pages    int64   // size of the database after the last intact commit
	Later    int     // commits of this generation after the commit with the first broken frame
	Broken   int     // number of that frame, from 0; -1: there is none, or nothing follows it
	Header   bool    // the header is whole

	endian binary.ByteOrder
}

// Follows reports whether a frame continues a log's chain of checksums. before is the checksum at the end of the previous frame, or of the
// header.
func Follows(header, before, head, page []byte) bool {
	o := order(header)
	return pair(before).add(o, head[:8]).add(o, page) == frame(head).stored() && pair(header[16:]) == sums(frame(head).salts())
}

func order(header []byte) binary.ByteOrder {
	if binary.BigEndian.Uint32(header)&1 == 1 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Damage describes the losses of a log.
type Damage struct {
	Path    string
	Cause   string
	Good    int64 // bytes that are whole
	Bytes   int64 // bytes known to have been on disk
	Commits int   // commits that would be lost, at least
}

func (d *Damage) Error() string {
	return fmt.Sprintf("the log %s is damaged: %s; going on without it would lose at least %d commits", d.Path, d.Cause, d.Commits)
}

// Read reads the log at path. It returns nil if the log is missing or empty.
func Read(path string) (*Log, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l, err := read(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read log %s: %w", path, err)
	}
	return l, nil
}

func read(r io.Reader) (*Log, error) {
	var head [HeaderSize]byte
	switch n, err := io.ReadFull(r, head[:]); {
	case n == 0 && errors.Is(err, io.EOF):
		return nil, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Log{Size: int64(n), Broken: -1}, nil
	case err != nil:
		return nil, err
	}
	l := &Log{Broken: -1, Size: HeaderSize}
	s := l.header(head[:])
	if l.PageSize == 0 {
		n, err := io.Copy(io.Discard, r)
		l.Size += n
		return l, err
	}
	return l, l.frames(r, s)
}

// header reads the header. If the header is damaged, plausible values are still used, so that the frames after it can be read.
func (l *Log) header(b []byte) (s sums) {
	m := binary.BigEndian.Uint32(b)
	l.endian = order(b)
	size := int(binary.BigEndian.Uint32(b[8:]))
	s = s.add(l.endian, b[:24])
	l.Header = m&^1 == magic && s == pair(b[24:]) && size >= MinPage && size <= MaxPage && size&(size-1) == 0
	l.Salts, l.PageSize = Salts(pair(b[16:])), size
	if !l.Header {
		l.Salts, l.PageSize, l.endian = Salts{}, 4096, binary.LittleEndian
	}
	return s
}

// frames reads the frames to the end, even after a broken one.
func (l *Log) frames(r io.Reader, s sums) error {
	buf := make([]byte, FrameHead+l.PageSize)
	var open []Frame     // intact frames of a commit that has not ended yet
	stored, made := s, s // checksums of the previous frame: stored and computed
	whole := l.Header    // all frames so far
	broken, at := 0, -1  // the first that is not
	ended := false       // the commit with the broken frame has ended; it may have been on its way to the disk at a power cut
	for i := 0; ; i++ {
		n, err := io.ReadFull(r, buf)
		l.Size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
		f := frame(buf)
		if i == 0 && !l.Header {
			l.Salts = f.salts()
		}
		after, same := f.sum(l.endian, made), f.salts() == l.Salts && f.page() != 0
		if whole && same && after == f.stored() {
			stored, made = after, after
			open = append(open, Frame{Page: f.page(), Sum: crc32.Checksum(f.data(), table)})
			if f.commit() {
				l.Frames, open = append(l.Frames, open...), open[:0]
				l.Good = l.Size
				l.Pages = int64(f.pages())
				l.Commits++
			}
			continue
		}
		if whole {
			whole = false
			broken, ended = i, same && f.commit()
		} else if same && (f.sum(l.endian, stored) == f.stored() || after == f.stored()) && f.commit() {
			if ended {
				l.Later++
				at = broken
			}
			ended = true
		}
		stored, made = f.stored(), after
	}
	l.Broken = at
	if !l.Header && l.Later > 0 {
		l.Broken = 0
	}
	return nil
}

// Check compares a log with the part that was synced to disk. The error is a *Damage.
func Check(path string, l *Log, m Mark) error {
	d := &Damage{Path: path, Bytes: m.Bytes, Commits: 1}
	if l != nil {
		d.Good, d.Bytes = l.Good, max(m.Bytes, l.Size)
	}
	known := m.Bytes > m.Copied // the log has data that is not in the database
	switch {
	case l == nil || l.Size == 0:
		if !known {
			return nil
		}
		d.Cause, d.Commits = "it is missing", int(m.Commits)
	case !l.Header:
		if !known && l.Later == 0 {
			return nil
		}
		d.Cause, d.Commits = "its header is not whole", max(l.Later, int(m.Commits))
	case known && l.Salts != m.Salts && l.Salts.Older(m.Salts):
		d.Cause, d.Commits = "it is an older one than the last that was written", int(m.Commits)
	case l.Salts == m.Salts && l.Good >= m.Bytes:
		return nil // the following commit was never completely on disk, so it was not acknowledged
	case l.Salts == m.Salts:
		d.Cause = fmt.Sprintf("frame %d is not whole, and %d bytes after it had been written", len(l.Frames)+1, m.Bytes-l.Good)
		if l.Size < m.Bytes {
			d.Cause = fmt.Sprintf("it has %d bytes of %d", l.Size, m.Bytes)
		}
		d.Commits = max(int(m.Commits)-l.Commits, l.Later, 1)
	case l.Later > 0:
		d.Cause, d.Commits = fmt.Sprintf("frame %d is not whole, and whole commits follow it", l.Broken+1), l.Later
	default:
		return nil
	}
	return d
}

// frame is one frame as stored in the file.
type frame []byte

func (f frame) page() uint32  { return binary.BigEndian.Uint32(f) }
func (f frame) pages() uint32 { return binary.BigEndian.Uint32(f[4:]) } // size of the database, in a commit's last frame
func (f frame) commit() bool  { return f.pages() != 0 }
func (f frame) salts() Salts  { return Salts(pair(f[8:])) }
func (f frame) stored() sums  { return pair(f[16:]) }
func (f frame) data() []byte  { return f[FrameHead:] }

// sum computes the frame's checksum from that of the previous frame.
func (f frame) sum(o binary.ByteOrder, before sums) sums {
	return before.add(o, f[:8]).add(o, f.data())
}

// sums is SQLite's running checksum.
type sums [2]uint32

func (s sums) add(o binary.ByteOrder, b []byte) sums {
	s0, s1 := s[0], s[1]
	if o == binary.BigEndian {
		for ; len(b) >= 8; b = b[8:] {
			s0 += binary.BigEndian.Uint32(b) + s1
			s1 += binary.BigEndian.Uint32(b[4:]) + s0
		}
		return sums{s0, s1}
	}
	for ; len(b) >= 8; b = b[8:] {
		s0 += binary.LittleEndian.Uint32(b) + s1
		s1 += binary.LittleEndian.Uint32(b[4:]) + s0
	}
	return sums{s0, s1}
}

func pair(b []byte) sums { return sums{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])} }

var table = crc32.MakeTable(crc32.Castagnoli)
