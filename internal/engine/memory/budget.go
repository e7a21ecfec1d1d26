package memory

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// slack is the part of a budget, an eighth, by which it may be exceeded, and which shedding makes free.
const slack = 8

// Budget bounds the bytes that many queues hold together. When it is exceeded, its owner sheds the longest queues.
type Budget struct {
	limit int64
	held  atomic.Int64
}

// NewBudget returns a budget of limit bytes. 0: a quarter of the process's memory.
func NewBudget(limit int64) *Budget {
	if limit <= 0 {
		limit = Limit() / 4
	}
	return &Budget{limit: limit}
}

// Add adds n to the bytes that are held; n is negative when bytes leave. True: more bytes came than the budget has, so the owner must shed.
func (b *Budget) Add(n int) (over bool) {
	total := b.held.Add(int64(n))
	return n > 0 && total > b.limit
}

// Limit returns the most bytes.
func (b *Budget) Limit() int64 { return b.limit }

// Held returns the bytes that are held.
func (b *Budget) Held() int64 { return b.held.Load() }

// Room reports whether n more bytes fit.
func (b *Budget) Room(n int) bool { return b.held.Load()+int64(n) <= b.limit }

// Full reports whether more than an eighth beyond the budget is held. Queues take nothing more then, until the longest are gone.
func (b *Budget) Full() bool { return b.held.Load() > b.limit+b.limit/slack }

// Shed ends the longest queues until an eighth of the budget is free, and returns how many. end need not give the bytes back before it
// returns, because a write may hold them. Empty queues stay.
func Shed[Q interface{ Queued() int }](b *Budget, queues []Q, end func(Q)) (ended int) {
	type sized struct {
		q Q
		n int
	}
	all := make([]sized, len(queues))
	for i, q := range queues {
		all[i] = sized{q, q.Queued()}
	}
	slices.SortFunc(all, func(a, b sized) int { return cmp.Compare(b.n, a.n) })
	due := b.held.Load() - (b.limit - b.limit/slack)
	for _, s := range all {
		if due <= 0 || s.n == 0 {
			break
		}
		end(s.q)
		due -= int64(s.n)
		ended++
	}
	return ended
}
