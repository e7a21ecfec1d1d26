package postgres

import (
	"encoding/json"
	"fmt"
	"slices"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/objects/object"
)

// position is what a feed notes.
type position struct {
	System   string   `json:"system"`           // identifier of the server
	Timeline int      `json:"timeline"`         // of its log
	LSN      LSN      `json:"lsn"`              // commits before it are stored
	Read     LSN      `json:"read"`             // no commit behind it has been read; where the end of the feed was noted, it is that of the last one
	Bound    LSN      `json:"bound,omitempty"`  // nothing behind it was confirmed; 0: unknown
	Shift    LSN      `json:"shift,omitempty"`  // added to positions to make versions, since the log of a server that takes over may begin lower
	Slot     string   `json:"slot"`             // which the source has made
	Making   bool     `json:"making,omitempty"` // or is making
	Groups   []string `json:"groups,omitempty"`
	Copy     *copying `json:"copy,omitempty"` // a first copy under way
}

// copying is how far a first copy has come.
type copying struct {
	LSN   LSN      `json:"lsn"`   // version of what is copied
	Table int      `json:"table"` // index of the next table
	After []string `json:"after,omitempty"`
}

// mostGroups limits the groups of objects that are remembered.
const mostGroups = 1_000

func readPosition(t *source.Target) (*position, error) {
	if len(t.Position) == 0 {
		return nil, nil
	}
	p := &position{}
	if err := json.Unmarshal(t.Position, p); err != nil {
		return nil, fmt.Errorf("what source %s has noted is damaged: %w", t.Name, err)
	}
	return p, nil
}

// version is that of objects that a commit changes. Only after a failover it differs from the commit's position.
func (p *position) version(commit LSN) object.Version {
	return object.Version(commit + p.Shift) // logs have fewer than 2^63 bytes
}

// above makes the versions of commits from a position on higher than those of a former position's.
func (p *position) above(at LSN, former *position) {
	if highest := former.Read + former.Shift; at+p.Shift <= highest {
		p.Shift = highest - at + 1
	}
}

func (p *position) encode() []byte {
	b, _ := json.Marshal(p) // texts and numbers always encode
	return b
}

// touch remembers a group of objects, and reports whether it is new.
func (p *position) touch(group string) bool {
	i, known := slices.BinarySearch(p.Groups, group)
	if known || len(p.Groups) >= mostGroups {
		return false
	}
	p.Groups = slices.Insert(p.Groups, i, group)
	return true
}
