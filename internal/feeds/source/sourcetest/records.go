// Package sourcetest has what tests of sources share.
package sourcetest

import (
	"context"
	"slices"
	"sync"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
)

// Records are the records of sources, in memory.
type Records struct {
	mu        sync.Mutex
	positions map[setting.Place][]byte
	aside     map[setting.Place][]source.SetAside
}

var _ source.Records = (*Records)(nil)

// NewRecords makes empty records.
func NewRecords() *Records {
	return &Records{positions: make(map[setting.Place][]byte), aside: make(map[setting.Place][]source.SetAside)}
}

// Position implements source.Records.
func (r *Records) Position(_ context.Context, at setting.Place) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.positions[at], nil
}

// Note implements source.Records.
func (r *Records) Note(_ context.Context, at setting.Place, position []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.positions[at] = position
	return nil
}

// SetAside implements source.Records.
func (r *Records) SetAside(_ context.Context, at setting.Place, entries []source.SetAside) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.aside[at] = append(r.aside[at], entries...)
	return nil
}

// Quarantine implements source.Records. It returns all entries.
func (r *Records) Quarantine(_ context.Context, at setting.Place, _ int64, _ int) ([]source.SetAside, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.aside[at]), nil
}

// Forget implements source.Records.
func (r *Records) Forget(_ context.Context, at setting.Place, all bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.aside, at)
	if all {
		delete(r.positions, at)
	}
	return nil
}
