// Package shrink has a map whose memory follows its size. Go's maps keep the space of their deleted entries.
package shrink

import "math/rand/v2"

// least is how many entries a map must have had before it shrinks: below, the space is not worth the copy.
const least = 1024

// Map is a map that copies itself into a smaller one when few of its entries are left. The zero value is empty and ready. A map of millions
// would copy for long at once, so large ones are split by their owner.
type Map[K comparable, V any] struct {
	m    map[K]V
	most int // entries since the last copy
	part int // it copies itself at this many 64ths of most, a number between 16 and 31, so that maps that empty together do not copy together
}

// Get returns a value, or the zero value if there is none.
func (m *Map[K, V]) Get(k K) V { return m.m[k] }

// Len is the number of entries.
func (m *Map[K, V]) Len() int { return len(m.m) }

// All returns the entries as a map that must not be changed.
func (m *Map[K, V]) All() map[K]V { return m.m }

// Set adds or replaces an entry.
func (m *Map[K, V]) Set(k K, v V) {
	if m.m == nil {
		m.m, m.part = make(map[K]V), 16+rand.IntN(16) // not a secret
	}
	m.m[k] = v
	m.most = max(m.most, len(m.m))
}

// Delete removes an entry.
func (m *Map[K, V]) Delete(k K) {
	delete(m.m, k)
	if m.most < least || len(m.m) >= m.most*m.part/64 {
		return
	}
	smaller := make(map[K]V, len(m.m))
	for k, v := range m.m {
		smaller[k] = v
	}
	m.m, m.most = smaller, len(smaller)
}
