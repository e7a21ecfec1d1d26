package repair

import (
	"maps"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// notes are the notes of the log's frames that were synced to disk.
type notes struct {
	frames []walfile.Note
	copied int  // number of frames copied into the database and synced
	whole  bool // the note of each frame exists; otherwise there was a power cut, or the notes are of another log
}

func noted(k *checkvfs.Kept, size int, m *walfile.Repaired) (n notes) {
	if k.Mark.Bytes == 0 || m.Salts != (walfile.Salts{}) && m.Salts != k.Mark.Salts {
		return n
	}
	frames := func(bytes int64) int { return int(max(0, bytes-walfile.HeaderSize) / int64(size+walfile.FrameHead)) }
	count := frames(k.Mark.Bytes)
	if count > len(k.Notes) {
		return n
	}
	n = notes{frames: k.Notes[:count], copied: frames(k.Mark.Copied), whole: true}
	for _, note := range n.frames {
		n.whole = n.whole && note.Page != 0
	}
	return n
}

// before returns the last state with all its pages. This is the state up to the first lost frame or, if that frame was already copied, the
// state after the copied frames.
func (n *notes) before(size int, m *walfile.Repaired) *walfile.Repaired {
	b := m.Before
	if b == nil {
		b = &walfile.Repaired{PageSize: size, Pages: maps.Clone(m.Pages), Size: m.Size, Commits: m.Commits, Frames: m.Frames}
	}
	if n.whole && n.copied > b.Frames {
		b = &walfile.Repaired{PageSize: size, Frames: n.copied, Size: int64(n.frames[n.copied-1].Pages)}
	}
	return b
}

// commits returns how many commits followed a state; a minimum, if notes of frames are missing.
func (n *notes) commits(k *checkvfs.Kept, state *walfile.Repaired) (lost int) {
	if !n.whole {
		return max(1, int(k.Mark.Commits)-state.Commits)
	}
	for _, note := range n.frames[min(state.Frames, len(n.frames)):] {
		if note.Pages > 0 {
			lost++
		}
	}
	return max(1, lost)
}

// newest finds the newest version of each page by the notes of the log's frames: in the log or, if it was copied, in the database. missing
// counts pages whose newest version is in neither. ahead counts pages whose newest version only the database has, although no note records
// the copy.
func (n *notes) newest(base []byte, size int, m *walfile.Repaired) (ahead, missing int) {
	if len(n.frames) == 0 {
		return 0, len(m.Holes)
	}
	if !n.whole {
		return 0, max(len(m.Holes), len(n.frames)-m.Frames)
	}
	if m.Frames > len(n.frames) { // complete commits that were never acknowledged
		return 0, len(m.Holes)
	}
	last := make(map[uint32]int)
	for i, note := range n.frames {
		last[note.Page] = i
		if note.Pages > 0 && m.Frames < len(n.frames) {
			m.Size = int64(note.Pages)
		}
	}
	m.Copied = make(map[uint32]bool)
	for page, i := range last {
		sum := n.frames[i].Sum
		if b, ok := m.Pages[page]; ok && walfile.Sum(b) == sum {
			continue
		}
		delete(m.Pages, page)
		if m.Holes == nil {
			m.Holes = map[uint32]int{}
		}
		m.Holes[page] = 0
		if end := int(page) * size; end <= len(base) && walfile.MendPage(base[end-size:end], sum) {
			delete(m.Holes, page)
			m.Copied[page] = true
			if i >= n.copied {
				ahead++
			}
		} else {
			missing++
		}
	}
	m.Blind = false
	return ahead, missing
}
