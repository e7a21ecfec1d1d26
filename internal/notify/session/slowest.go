package session

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// Order is the measure by which a list of the slowest sessions is sorted.
type Order string

// Orders.
const (
	ByOldest  Order = "oldest"  // by the notification that has waited longest for its acknowledgement
	ByUnacked Order = "unacked" // most notifications in flight
	ByQueued  Order = "queued"  // most bytes that the connection has not accepted
)

// Lag is a session with notifications in flight or bytes queued.
type Lag struct {
	Info
	Recipient string
	Oldest    int64 // position of its oldest notification in flight; 0: none
	Queued    int   // bytes that wait for the connection, if its gateway can count them
}

// SortLags puts the slowest first.
func SortLags(lags []Lag, by Order) {
	slices.SortStableFunc(lags, func(a, b Lag) int { return cmp.Compare(b.rank(by), a.rank(by)) })
}

// rank is a number that grows with the slowness of the session.
func (l *Lag) rank(by Order) int64 {
	switch {
	case by == ByUnacked:
		return int64(l.Unacked)
	case by == ByQueued:
		return int64(l.Queued)
	case l.Oldest == 0:
		return 0
	}
	return math.MaxInt64 - l.Oldest // positions grow with time, roughly
}

// queuer is a Transport that counts its queued bytes. Streams that share a connection cannot count them.
type queuer interface{ Queued() int }

// Slowest lists up to n sessions of an app that have notifications in flight or bytes queued, the slowest first. It locks one session at a
// time, so it delays no others, and it costs nothing unless called. partial: other nodes may have slower ones.
func (h *Hub) Slowest(_ context.Context, app string, by Order, n int) (found []Lag, partial bool, err error) {
	var some []*Session
	for i := range h.reg.shards {
		some = h.reg.shards[i].sessions(some[:0])
		for _, s := range some {
			l := Lag{}
			if s.app != app || !s.lag(&l) {
				continue
			}
			rank := l.rank(by)
			at, _ := slices.BinarySearchFunc(found, rank, func(o Lag, rank int64) int {
				if o.rank(by) >= rank {
					return -1 // the slowest first; sessions of equal rank in the order in which they were found
				}
				return 1
			})
			if at == n {
				continue
			}
			unacked := l.Unacked
			l.Info = s.info()
			l.Unacked = unacked // what it was ranked by
			found = slices.Insert(found[:min(len(found), n-1)], at, l)
		}
	}
	return found, false, nil
}

// lag sets how far s is behind and reports whether it is.
func (s *Session) lag(l *Lag) bool {
	l.Queued = s.Queued()
	s.mu.Lock()
	defer s.mu.Unlock()
	flight := s.flight()
	l.Recipient, l.Unacked = s.recipient, len(flight)
	for i := range flight {
		if l.Oldest == 0 || flight[i].pos < l.Oldest {
			l.Oldest = flight[i].pos
		}
	}
	return s.state == live && (l.Unacked > 0 || l.Queued > 0)
}
