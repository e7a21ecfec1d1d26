package postgres

import (
	"encoding/json"
	"fmt"
	"slices"

	"godwit.dev/godwit/internal/feeds/source"
)

// position is what a feed notes.
type position struct {
	System   string   `json:"system"`           // identifier of the server
	Timeline int      `json:"timeline"`         // of its log
	LSN      string   `json:"lsn"`              // commits before it are stored
	Slot     string   `json:"slot"`             // which the source has made
	Making   bool     `json:"making,omitempty"` // or is making
	Groups   []string `json:"groups,omitempty"`
	Copy     *copying `json:"copy,omitempty"` // a first copy under way
}

// copying is how far a first copy has come.
type copying struct {
	LSN   string   `json:"lsn"`   // version of what is copied
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
